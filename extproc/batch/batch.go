// Package batch calls the batch APIs of providers: many requests of one model are submitted together, answered within a day, and cost a fraction of
// the usual price. It knows OpenAI's and Anthropic's wire formats, and that every call goes through Envoy's egress listener. It does not know the
// content of requests and answers, nor who waits for them.
package batch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// The forms of batch APIs.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
)

// Target is the batch API of one provider, called with one of its keys.
type Target struct {
	Form      string // OpenAI or Anthropic
	Provider  policy.ProviderID
	Authority string      // for the Host header
	BasePath  string      // up to and including the version
	Header    header.List // credentials
	Cluster   policy.ProviderID
	Exchange  string       // admits calls at the egress listener
	Client    *http.Client // of that listener
}

// Item is one request of a batch.
type Item struct {
	ID   string // unique, of letters, digits and underscores, at most 64
	Body []byte // JSON in the provider's format
}

// Order is a batch to be submitted.
type Order struct {
	Tag   string // identifies it for Find
	Path  string // of the requests' endpoint, below BasePath: "/chat/completions"
	Beta  string // Anthropic: the beta flags of all its requests
	Items []Item
	Input string // OpenAI: the id of the uploaded file; "" before Upload
}

// Remote is a batch at its provider.
type Remote struct {
	ID    string
	State State
	Files []string // OpenAI: its files, once it has ended
}

// State is the state of a batch.
type State uint8

// The states.
const (
	Running State = iota
	Ended         // it has results, possibly not for all requests: it may have expired, or been cancelled
	Failed        // it was rejected as a whole
)

// Result is the result of one request.
type Result struct {
	ID       string
	Answered bool   // the provider answered it, possibly with an error; else it expired, or was cancelled before it began
	Status   int    // HTTP
	Body     []byte // in the provider's format
}

// Refused is the error of a call that the provider refused without doing anything.
type Refused struct {
	Status int // 0: no connection
	Again  bool
}

// Error returns only the status: the provider's message may quote a request.
func (r *Refused) Error() string {
	if r.Status == 0 {
		return "the provider was not reached"
	}
	return fmt.Sprintf("the provider answered %d", r.Status)
}

// Outcome classifies a failed submission.
type Outcome uint8

// The outcomes.
const (
	Unknown Outcome = iota // it may have been accepted: look it up before retrying
	Later                  // it was not accepted, and may be later
	Never                  // it was not accepted, and will not be
)

// OutcomeOf classifies the error of Upload or Submit.
func OutcomeOf(err error) Outcome {
	r, ok := errors.AsType[*Refused](err)
	switch {
	case !ok:
		return Unknown
	case r.Again:
		return Later
	}
	return Never
}

// api is one form.
type api interface {
	upload(ctx context.Context, t *Target, o *Order) (input string, err error)
	submit(ctx context.Context, t *Target, o *Order) (Remote, error)
	find(ctx context.Context, t *Target, o *Order, since time.Time) ([]Remote, error)
	look(ctx context.Context, t *Target, id string) (Remote, error)
	cancel(ctx context.Context, t *Target, id string) error
	results(ctx context.Context, t *Target, id string, each func(*Result) error) error
	forget(ctx context.Context, t *Target, r *Remote) error
}

func (t *Target) api() (api, error) {
	switch t.Form {
	case OpenAI:
		return openAI{}, nil
	case Anthropic:
		return anthropic{}, nil
	}
	return nil, fmt.Errorf("no batch API of the form %q is known", t.Form)
}

// Upload uploads the requests, if that is a separate step, and returns the id of the upload, else "". It may be repeated.
func (t *Target) Upload(ctx context.Context, o *Order) (string, error) {
	a, err := t.api()
	if err != nil {
		return "", err
	}
	return a.upload(ctx, t, o)
}

// Submit creates the batch. After an error of unknown outcome it must not be repeated before Find was called.
func (t *Target) Submit(ctx context.Context, o *Order) (Remote, error) {
	a, err := t.api()
	if err != nil {
		return Remote{}, err
	}
	return a.submit(ctx, t, o)
}

// Find looks for the batches that a submission since some time may have created: OpenAI's have its tag; of Anthropic's, those with the same number of
// requests, whose results identify it.
func (t *Target) Find(ctx context.Context, o *Order, since time.Time) ([]Remote, error) {
	a, err := t.api()
	if err != nil {
		return nil, err
	}
	return a.find(ctx, t, o, since)
}

// Look returns the state of a batch.
func (t *Target) Look(ctx context.Context, id string) (Remote, error) {
	a, err := t.api()
	if err != nil {
		return Remote{}, err
	}
	return a.look(ctx, t, id)
}

// Cancel asks the provider to start no further request of a batch. It ends later, with the results so far.
func (t *Target) Cancel(ctx context.Context, id string) error {
	a, err := t.api()
	if err != nil {
		return err
	}
	return a.cancel(ctx, t, id)
}

// Results reads the results of a batch that has ended, in any order. It stops at an error of each.
func (t *Target) Results(ctx context.Context, id string, each func(*Result) error) error {
	a, err := t.api()
	if err != nil {
		return err
	}
	return a.results(ctx, t, id, each)
}

// Forget deletes what the provider still stores of a batch that has ended.
func (t *Target) Forget(ctx context.Context, r *Remote) error {
	a, err := t.api()
	if err != nil {
		return err
	}
	return a.forget(ctx, t, r)
}

// maxAnswer is the maximum size of an answer about a batch, in bytes, and maxLine that of one result.
const (
	maxAnswer = 4 << 20
	maxLine   = 32 << 20
)

// request is one call.
type request struct {
	method, path string
	contentType  string
	body         []byte
	header       header.List
}

// open makes a call and returns its answer with status 2xx. The caller closes its body.
func (t *Target) open(ctx context.Context, r *request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, "http://egress"+t.BasePath+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Host = t.Authority
	for _, f := range slices.Concat(t.Header, r.header) {
		req.Header.Set(f.Name, f.Value)
	}
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set(state.HeaderCluster, state.Cluster(t.Cluster))
	req.Header.Set(state.HeaderExchange, t.Exchange)
	resp, err := t.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if err := t.refusal(resp); err != nil {
		upstream.CloseBody(resp)
		return nil, err
	}
	return resp, nil
}

// refusal returns the error of an unsuccessful answer.
func (t *Target) refusal(resp *http.Response) error {
	if why := resp.Header.Get(state.HeaderFailure); why != "" {
		f := upstream.Local(t.Provider, resp.StatusCode, why)
		if f.Unknown || f.Kind == upstream.NoConnection {
			return &Refused{Again: true}
		}
		return fmt.Errorf("provider %s did not answer: %w", t.Provider, f.Cause)
	}
	switch s := resp.StatusCode; {
	case s/100 == 2:
		return nil
	case s == http.StatusTooManyRequests, s == http.StatusRequestTimeout:
		return &Refused{Status: s, Again: true}
	case s >= http.StatusInternalServerError:
		return fmt.Errorf("provider %s answered %d", t.Provider, s)
	default:
		return &Refused{Status: s}
	}
}

// read makes a call and reads its JSON answer.
func (t *Target) read(ctx context.Context, r *request, into any) error {
	resp, err := t.open(ctx, r) //nolint:bodyclose // CloseBody does it
	if err != nil {
		return err
	}
	defer upstream.CloseBody(resp)
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(b, into)
}

// lines makes a call and reads its answer of JSON lines.
func (t *Target) lines(ctx context.Context, path string, each func(line []byte) error) error {
	resp, err := t.open(ctx, &request{method: http.MethodGet, path: path}) //nolint:bodyclose // CloseBody does it
	if err != nil {
		return err
	}
	defer upstream.CloseBody(resp)
	s := bufio.NewScanner(resp.Body)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		if line := bytes.TrimSpace(s.Bytes()); len(line) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
	}
	return s.Err()
}

// isGone reports whether a resource does not exist, or no longer does.
func isGone(err error) bool {
	r, ok := errors.AsType[*Refused](err)
	return ok && (r.Status == http.StatusNotFound || r.Status == http.StatusGone)
}
