package batch

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// anthropic is Anthropic's API: the requests are the body of the call that creates the batch.
type anthropic struct{}

const anthropicBatches = "/messages/batches"

type anthropicBatch struct {
	ID        string    `json:"id"`
	Status    string    `json:"processing_status"`
	CreatedAt time.Time `json:"created_at"`
	Counts    struct {
		Processing, Succeeded, Errored, Canceled, Expired int
	} `json:"request_counts"`
}

func (b *anthropicBatch) remote() Remote {
	r := Remote{ID: b.ID}
	if b.Status == "ended" {
		r.State = Ended
	}
	return r
}

// requests returns the number of its requests.
func (b *anthropicBatch) requests() int {
	c := &b.Counts
	return c.Processing + c.Succeeded + c.Errored + c.Canceled + c.Expired
}

// upload is not a separate step.
func (anthropic) upload(context.Context, *Target, *Order) (string, error) { return "", nil }

func (anthropic) submit(ctx context.Context, t *Target, o *Order) (Remote, error) {
	b := []byte(`{"requests":[`)
	for i := range o.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(append(b, `{"custom_id":`...), o.Items[i].ID)
		b = append(append(append(b, `,"params":`...), o.Items[i].Body...), '}')
	}
	r := request{method: http.MethodPost, path: anthropicBatches, contentType: header.JSON, body: append(b, "]}"...)}
	if o.Beta != "" {
		r.header = header.List{{Name: "anthropic-beta", Value: o.Beta}}
	}
	var made anthropicBatch
	if err := t.read(ctx, &r, &made); err != nil {
		return Remote{}, err
	}
	return made.remote(), nil
}

func (anthropic) find(ctx context.Context, t *Target, o *Order, since time.Time) (found []Remote, err error) {
	after := ""
	for range mostPages {
		q := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if after != "" {
			q.Set("after_id", after)
		}
		var page struct {
			Data []anthropicBatch `json:"data"`
			More bool             `json:"has_more"`
		}
		if err := t.read(ctx, &request{method: http.MethodGet, path: anthropicBatches + "?" + q.Encode()}, &page); err != nil {
			return nil, err
		}
		for i := range page.Data {
			b := &page.Data[i]
			if b.CreatedAt.Before(since.Add(-clockSkew)) {
				return found, nil
			}
			if after = b.ID; b.requests() == len(o.Items) {
				found = append(found, b.remote())
			}
		}
		if !page.More || len(page.Data) == 0 {
			break
		}
	}
	return found, nil
}

func (anthropic) look(ctx context.Context, t *Target, id string) (Remote, error) {
	var b anthropicBatch
	if err := t.read(ctx, &request{method: http.MethodGet, path: anthropicBatches + "/" + url.PathEscape(id)}, &b); err != nil {
		return Remote{}, err
	}
	return b.remote(), nil
}

func (anthropic) cancel(ctx context.Context, t *Target, id string) error {
	return t.read(ctx, &request{method: http.MethodPost, path: anthropicBatches + "/" + url.PathEscape(id) + "/cancel", contentType: header.JSON}, nil)
}

func (anthropic) results(ctx context.Context, t *Target, id string, each func(*Result) error) error {
	return t.lines(ctx, anthropicBatches+"/"+url.PathEscape(id)+"/results", func(line []byte) error {
		r, ok := readAnthropicLine(line)
		if !ok {
			return nil
		}
		return each(&r)
	})
}

// readAnthropicLine parses a line of the results; ok is false for one that names no request.
func readAnthropicLine(line []byte) (r Result, ok bool) {
	var l struct {
		ID     string `json:"custom_id"`
		Result struct {
			Type    string          `json:"type"`
			Message json.RawMessage `json:"message"`
			Error   json.RawMessage `json:"error"`
		} `json:"result"`
	}
	if json.Unmarshal(line, &l) != nil || l.ID == "" {
		return r, false
	}
	r.ID = l.ID
	switch l.Result.Type {
	case "succeeded":
		r.Answered, r.Status, r.Body = true, http.StatusOK, l.Result.Message
	case "errored":
		r.Answered, r.Status, r.Body = true, anthropicStatus(l.Result.Error), l.Result.Error
	}
	return r, true
}

// anthropicStatuses are the statuses of Anthropic's error types.
var anthropicStatuses = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
	"request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
}

// anthropicStatus returns the status that an error would have outside of a batch.
func anthropicStatus(body []byte) int {
	var e struct {
		Error struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil {
		return http.StatusInternalServerError
	}
	if status, ok := anthropicStatuses[e.Error.Type]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// forget deletes the batch with its results: the provider would store them for a month.
func (anthropic) forget(ctx context.Context, t *Target, r *Remote) error {
	err := t.read(ctx, &request{method: http.MethodDelete, path: anthropicBatches + "/" + url.PathEscape(r.ID)}, nil)
	if isGone(err) {
		return nil
	}
	return err
}
