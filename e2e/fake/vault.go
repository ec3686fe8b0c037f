package fake

import (
	"bytes"
	"net/http"
	"strconv"

	"bardo.money/gateway/e2e/fake/enclave"
)

// sealer collects an answer, and writes it sealed.
type sealer struct {
	http.ResponseWriter

	of     *enclave.Visit
	status int
	body   bytes.Buffer
	change func(sealed []byte) []byte // of the behaviour; nil: none
}

// WriteHeader implements http.ResponseWriter.
func (s *sealer) WriteHeader(status int) { s.status = status }

// Write implements http.ResponseWriter.
func (s *sealer) Write(b []byte) (int, error) { return s.body.Write(b) }

// Flush is what the player wants of a writer.
func (s *sealer) Flush() {}

// finish writes what was collected: an error as it is, an answer sealed.
func (s *sealer) finish(p *player) {
	h, out := s.Header(), s.body.Bytes()
	if s.status == http.StatusOK {
		out = s.of.Seal(out)
		if s.change != nil {
			out = s.change(out)
		}
		h.Set("Content-Type", "application/json")
	}
	var late []string
	if s.status == http.StatusOK && p.attests() {
		late = p.sign(out)
	}
	h.Del("Content-Length") // of what is inside
	if late == nil {
		h.Set("Content-Length", strconv.Itoa(len(out)))
	}
	s.ResponseWriter.WriteHeader(s.status)
	_, _ = s.ResponseWriter.Write(out) // the caller may be away
	if late != nil {
		_ = http.NewResponseController(s.ResponseWriter).Flush() // or the answer gets a length, and no trailers
		p.trail(late)
	}
}
