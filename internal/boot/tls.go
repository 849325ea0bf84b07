package boot

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// certificate is a TLS certificate that is read again when its files change, so that a renewed one is
// used without a restart. A pair that cannot be read leaves the one before in use.
type certificate struct {
	certFile, keyFile string
	failed            func(error)

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]time.Time
	checked time.Time
}

// certificateCheckPeriod bounds how often the files are looked at.
const certificateCheckPeriod = time.Second

// loadCertificate reads the pair once; failed is told when a later one cannot be read.
func loadCertificate(certFile, keyFile string, failed func(error)) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, failed: failed}
	stamp, err := c.stamps()
	if err != nil {
		return nil, fmt.Errorf("look at the TLS certificate: %w", err)
	}
	return c, c.read(stamp)
}

func (c *certificate) stamps() (stamp [2]time.Time, err error) {
	for i, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return stamp, err
		}
		stamp[i] = info.ModTime()
	}
	return stamp, nil
}

func (c *certificate) read(stamp [2]time.Time) error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("read the TLS certificate and its key: %w", err)
	}
	c.current, c.stamp = &pair, stamp
	return nil
}

// get is for tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= certificateCheckPeriod {
		c.checked = now
		c.refresh()
	}
	return c.current, nil
}

func (c *certificate) refresh() {
	stamp, err := c.stamps()
	if err == nil && stamp == c.stamp {
		return
	}
	if err == nil {
		err = c.read(stamp)
	}
	if err != nil {
		c.failed(err)
	}
}
