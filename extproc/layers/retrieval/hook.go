package retrieval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/xds/state"
)

// Hook is an operator's service that finds texts.
type Hook struct {
	Client

	Name     string
	Cluster  string // of Envoy
	Host     string // with its port, for the Host header
	Path     string
	Token    secret.Text // sent as a bearer token, if it is set
	MaxBytes int         // of the answer
	Shadow   bool        // its results are counted, but not used
}

var _ Finder = (*Hook)(nil)

// protocolVersion is the version of requests to hooks. It changes when a member gets another meaning, not when one is added.
const protocolVersion = 1

// hookRequest is the body of a request to a hook. docs/retrieval.md describes it.
type hookRequest struct {
	Version       int    `json:"version"`
	ID            string `json:"id"`
	Hook          string `json:"hook"`
	Query         string `json:"query"`
	K             int    `json:"k"`
	Key           string `json:"key,omitempty"`
	Agent         string `json:"agent,omitempty"`
	Session       string `json:"session,omitempty"`
	Subsystem     string `json:"subsystem,omitempty"`
	SecurityClass string `json:"security_class"`
	Shadow        bool   `json:"shadow"`
}

// Find implements Finder.
func (h *Hook) Find(ctx context.Context, q *Question) ([]Result, error) {
	body, err := json.Marshal(hookRequest{
		Version: protocolVersion, ID: q.ID, Hook: h.Name, Query: q.Text, K: q.MaxResults, Key: string(q.Account), Agent: q.Agent, Session: q.Session, Subsystem: q.Subsystem,
		SecurityClass: q.Class.String(), Shadow: h.Shadow,
	})
	if err != nil {
		return nil, err
	}
	reply, err := h.post(ctx, q.ID, body)
	if err != nil {
		return nil, err
	}
	return readResults(reply, q.MaxResults)
}

// post sends a request, and returns the answer's body.
func (h *Hook) post(ctx context.Context, id string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://egress"+h.Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Host = h.Host
	req.Header.Set("Content-Type", header.JSON)
	req.Header.Set("User-Agent", "bardo-retrieval/1")
	if h.Token.IsSet() {
		req.Header.Set("Authorization", "Bearer "+h.Token.Reveal())
	}
	req.Header.Set(state.HeaderCluster, h.Cluster)
	req.Header.Set(state.HeaderExchange, h.Secret()+"."+id)
	res, err := h.HTTP.Do(req)
	if err != nil {
		return nil, failure(ctx, "unreachable")
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.Header.Get(state.HeaderFailure) != "":
		return nil, &FailedError{"unreachable"}
	case res.StatusCode != http.StatusOK:
		return nil, &FailedError{"bad_status"}
	}
	reply, err := io.ReadAll(io.LimitReader(res.Body, int64(h.MaxBytes)+1))
	switch {
	case err != nil:
		return nil, failure(ctx, "broken_off")
	case len(reply) > h.MaxBytes:
		return nil, &FailedError{"answer_too_large"}
	}
	return reply, nil
}

// failure is the error of a failed call: a timeout if its time limit has passed.
func failure(ctx context.Context, otherwise string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		otherwise = reasonTimeout
	}
	return &FailedError{otherwise}
}

// The bounds of a result.
const (
	maxText   = 16 << 10 // bytes
	maxTitle  = 256
	maxSource = 512
)

// idForm matches ids that may be in a record: a word, which is no content.
var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$`)

// answer is the body of a hook's answer.
type answer struct {
	Results *[]struct {
		ID     string   `json:"id"`
		Title  string   `json:"title"`
		Source string   `json:"source"`
		Text   string   `json:"text"`
		Score  *float64 `json:"score"`
	} `json:"results"`
}

// readResults parses a hook's answer: at most maxResults, best first, those without a score last. Members that are too long are cut.
func readResults(b []byte, maxResults int) ([]Result, error) {
	var a answer
	if err := json.Unmarshal(b, &a); err != nil || a.Results == nil {
		return nil, &FailedError{"bad_answer"}
	}
	var out []Result
	for _, e := range *a.Results {
		r := Result{ID: e.ID, Title: line(e.Title, maxTitle), Source: line(e.Source, maxSource), Text: clip(text(e.Text), maxText), Score: math.Inf(-1)}
		if strings.TrimSpace(r.Text) == "" {
			continue
		}
		if e.Score != nil {
			r.Score = *e.Score
		}
		r.Source = cmp.Or(r.Source, "search")
		r.Title = cmp.Or(r.Title, r.Source)
		if !idForm.MatchString(r.ID) {
			sum := sha256.Sum256([]byte(r.Source + "\n" + r.Text))
			r.ID = "h_" + hex.EncodeToString(sum[:6])
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b Result) int { return cmp.Compare(b.Score, a.Score) })
	return out[:min(len(out), maxResults)], nil
}

// text removes invalid characters, and control characters other than tabs and line feeds.
func text(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

// line makes a text a single line of at most maxBytes.
func line(s string, maxBytes int) string {
	return clip(strings.TrimSpace(strings.NewReplacer("\n", " ", "\t", " ").Replace(text(s))), maxBytes)
}

// clip cuts a text to at most maxBytes, between characters.
func clip(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	for maxBytes > 0 && !utf8.RuneStart(s[maxBytes]) {
		maxBytes--
	}
	return s[:maxBytes]
}
