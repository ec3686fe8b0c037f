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

// Hook is a service of the operator's that finds something.
type Hook struct {
	Client

	Name     string
	Cluster  string // of Envoy
	Host     string // with its port, for the Host header
	Path     string
	Token    secret.Text // sent as a bearer token, if it is set
	MaxBytes int         // of the answer
	Shadow   bool        // its results are counted, and not used
}

var _ Finder = (*Hook)(nil)

// protocolVersion is the version of what hooks get. It changes when a member gets another meaning, not when one is added.
const protocolVersion = 1

// question is what a hook gets. docs/retrieval.md describes it.
type question struct {
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
	body, err := json.Marshal(question{
		Version: protocolVersion, ID: q.ID, Hook: h.Name, Query: q.Text, K: q.Most, Key: string(q.Account), Agent: q.Agent, Session: q.Session, Subsystem: q.Subsystem,
		SecurityClass: q.Class.String(), Shadow: h.Shadow,
	})
	if err != nil {
		return nil, err
	}
	said, err := h.post(ctx, q.ID, body)
	if err != nil {
		return nil, err
	}
	return readResults(said, q.Most)
}

// post sends a question, and returns the answer's body.
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
	said, err := io.ReadAll(io.LimitReader(res.Body, int64(h.MaxBytes)+1))
	switch {
	case err != nil:
		return nil, failure(ctx, "broken_off")
	case len(said) > h.MaxBytes:
		return nil, &FailedError{"answer_too_large"}
	}
	return said, nil
}

// failure is why a call failed: its time was over, or something else.
func failure(ctx context.Context, otherwise string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		otherwise = whyTimeout
	}
	return &FailedError{otherwise}
}

// The bounds of a result.
const (
	maxText   = 16 << 10 // bytes
	maxTitle  = 256
	maxSource = 512
)

// idForm is an id that may stand in a record: a word, no content.
var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$`)

// answer is what a hook says.
type answer struct {
	Results *[]struct {
		ID     string   `json:"id"`
		Title  string   `json:"title"`
		Source string   `json:"source"`
		Text   string   `json:"text"`
		Score  *float64 `json:"score"`
	} `json:"results"`
}

// readResults reads a hook's answer: at most some results, the best first, those without a score last. What is too long is cut.
func readResults(b []byte, most int) ([]Result, error) {
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
	return out[:min(len(out), most)], nil
}

// text is a text of valid characters, none of which is a control character but tabs and ends of lines.
func text(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

// line is a text of one line.
func line(s string, most int) string {
	return clip(strings.TrimSpace(strings.NewReplacer("\n", " ", "\t", " ").Replace(text(s))), most)
}

// clip cuts a text to at most a number of bytes, and whole characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
