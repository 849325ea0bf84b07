package blob

import (
	"errors"
	"io"
)

// Open reads the blob from wherever it is sought to, by one read of the place for blobs from there on. The caller closes it.
func (o *Object) Open() io.ReadSeekCloser { return &seeker{object: o} }

type seeker struct {
	object *Object
	at     int64
	from   io.ReadCloser // nil: nothing was read since the last Seek
}

func (s *seeker) Read(b []byte) (n int, err error) {
	if s.at >= s.object.Size {
		return 0, io.EOF
	}
	if s.from == nil {
		o := s.object
		if s.from, err = o.bucket.NewRangeReader(o.ctx, o.key, s.at, -1, nil); err != nil {
			s.from = nil
			return 0, meaning(o.key, "read", err)
		}
	}
	n, err = s.from.Read(b)
	s.at += int64(n)
	return n, err
}

func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.object.Size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of a blob")
	}
	if offset == s.at {
		return offset, nil
	}
	s.at = offset
	return offset, s.Close()
}

func (s *seeker) Close() error {
	if s.from == nil {
		return nil
	}
	err := s.from.Close()
	s.from = nil
	return err
}
