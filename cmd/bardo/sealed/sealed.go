// Package sealed is the client of end-to-end encrypted requests, for agents that do not let the gateway read them: it encrypts a chat completion for an
// enclave's pinned key, sends it to POST /v1/e2ee/chat/completions of a gateway, and opens the answer. It does so for one request, or as a server on loopback
// that any OpenAI client can use. docs/e2ee.md has the format.
package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"bardo.money/gateway/policy/e2ee"
)

// path is where a gateway takes sealed requests.
const path = "/v1/e2ee/chat/completions"

// maxRequest bounds a request, in bytes.
const maxRequest = 16 << 20

// Client sends sealed requests to one gateway. Safe for concurrent use.
type Client struct {
	URL  string      // of the gateway, such as http://localhost:8080
	Keys []*e2ee.Key // of the enclave; the first is used, and the next one where the enclave does not know it
	HTTP *http.Client
}

// Answer is what came to a request: the opened answer, or the error of whoever refused it, which is readable.
type Answer struct {
	Status int
	Type   string // of the content
	Body   []byte
	ID     string // of the request at the gateway
}

// Send seals a request, sends it with the caller's headers, and opens its answer. An answer that is not for this request is an e2ee.Reason, and an enclave
// that knows none of the keys, a gateway that does not answer, or a request that may not be sent is another error.
func (c *Client) Send(ctx context.Context, body []byte, header http.Header) (*Answer, error) {
	a, err := read(body)
	if err != nil {
		return nil, err
	}
	for i, k := range c.Keys {
		got, call, err := c.sendWith(ctx, k, a, body, header)
		if err != nil {
			return nil, err
		}
		if got.Status/100 == 2 {
			got.Type = "application/json"
			if a.stream {
				got.Type = "text/event-stream"
			}
			got.Body, _, err = call.Open(got.Body)
			return got, err
		}
		if i == len(c.Keys)-1 || !bytes.Contains(got.Body, []byte("e2ee_key_unknown")) {
			return got, nil
		}
	}
	return nil, errors.New("there is no key of the enclave")
}

func (c *Client) sendWith(ctx context.Context, k *e2ee.Key, a asked, body []byte, header http.Header) (*Answer, *e2ee.Call, error) {
	sealed, call, err := e2ee.Seal(k, a.model, a.maxTokens, body)
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+path, bytes.NewReader(sealed))
	if err != nil {
		return nil, nil, err
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, e2ee.MaxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the answer was cut off: %w", e2ee.NotWhole)
	case len(b) > e2ee.MaxAnswer:
		return nil, nil, e2ee.NotBounded
	}
	return &Answer{Status: resp.StatusCode, Type: resp.Header.Get("Content-Type"), Body: b, ID: resp.Header.Get("X-Bardo-Request-Id")}, call, nil
}
