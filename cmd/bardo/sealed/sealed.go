// Package sealed is the client of end-to-end encrypted requests, for agents that do not let the gateway read them: it encrypts a chat completion for an
// enclave's pinned key, sends it to POST /v1/e2ee/chat/completions of a gateway, and decrypts the answer, for one request, or as a server on loopback for any
// OpenAI client. docs/e2ee.md has the format.
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

// path is a gateway's path for sealed requests.
const path = "/v1/e2ee/chat/completions"

// maxRequest bounds a request, in bytes.
const maxRequest = 16 << 20

// Client sends sealed requests to one gateway. Safe for concurrent use.
type Client struct {
	URL  string      // of the gateway, such as http://localhost:8080
	Keys []*e2ee.Key // of the enclave; the next one is used if the enclave does not know the first
	HTTP *http.Client
}

// Answer is the decrypted answer, or a plaintext error of the gateway or the enclave.
type Answer struct {
	Status int
	Type   string // content type
	Body   []byte
	ID     string // the gateway's request id
}

// Send seals a request, sends it with the caller's headers, and decrypts its answer. If the answer does not belong to this request, the error is an
// e2ee.Reason; it is another error if the enclave knows none of the keys, the gateway does not answer, or the request may not be sent.
func (c *Client) Send(ctx context.Context, body []byte, header http.Header) (*Answer, error) {
	a, err := parseRequest(body)
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

func (c *Client) sendWith(ctx context.Context, k *e2ee.Key, a outerFields, body []byte, header http.Header) (*Answer, *e2ee.Call, error) {
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
