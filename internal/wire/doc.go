// Package wire is what Server and Runner say to one another, and the connection they say it over.
//
// A Session is one WebSocket (RFC 6455) that the Runner opens. Its binary frames hold one or several
// messages, each a type byte and the CBOR (RFC 8949) of a struct; a writer that has several waiting
// puts them into one frame. See messages.go for the messages, limits.go for how large they may be,
// close.go for why a Session ends, and Capability for the versions of all this.
//
//	Dial, Upgrade  the two ends of a connection
//	Conn           one reader, one writer, a bounded queue, a sign of life every PingEvery
//	PackRecords    log records as they travel
//	FetchToken     the Runner's way to a bearer token (RFC 6749, client_credentials)
package wire
