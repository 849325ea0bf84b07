package wire

import "testing"

func TestExposesPlainHTTP(t *testing.T) {
	for url, want := range map[string]bool{
		"http://legwork.example.com": true, "HTTP://10.0.0.1:8440": true, "http://[2001:db8::1]": true, "http://0.0.0.0:1": true,
		"http://localhost.example.com": true, "http://127.0.0.1.example.com": true,
		"https://legwork.example.com": false, "http://127.0.0.1:8440": false, "http://127.9.9.9": false, "http://[::1]:1": false,
		"http://localhost:8440": false, "http://[::ffff:127.0.0.1]": false,
	} {
		if got := ExposesPlainHTTP(url); got != want {
			t.Errorf("%s: got %v, want %v", url, got, want)
		}
	}
}
