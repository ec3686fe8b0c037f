package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// openAI is OpenAI's API: the requests are a file of JSON lines, and so are their answers.
type openAI struct{}

// tagName is the member of a batch's metadata that holds its tag.
const tagName = "bardo_batch"

type openAIBatch struct {
	ID        string            `json:"id"`
	Status    string            `json:"status"`
	CreatedAt int64             `json:"created_at"`
	Input     string            `json:"input_file_id"`
	Output    string            `json:"output_file_id"`
	Errors    string            `json:"error_file_id"`
	Metadata  map[string]string `json:"metadata"`
}

func (b *openAIBatch) remote() Remote {
	r := Remote{ID: b.ID}
	switch b.Status {
	case "completed", "expired", "cancelled":
		r.State = Ended
	case "failed":
		r.State = Failed
	}
	for _, f := range []string{b.Input, b.Output, b.Errors} {
		if f != "" {
			r.Files = append(r.Files, f)
		}
	}
	return r
}

func (openAI) upload(ctx context.Context, t *Target, o *Order) (string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if err := form.WriteField("purpose", "batch"); err != nil {
		return "", err
	}
	file, err := form.CreateFormFile("file", o.Tag+".jsonl")
	if err != nil {
		return "", err
	}
	for i := range o.Items {
		if _, err := file.Write(openAILine(o.Path, &o.Items[i])); err != nil {
			return "", err
		}
	}
	if err := form.Close(); err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"id"`
	}
	err = t.read(ctx, &request{method: http.MethodPost, path: "/files", contentType: form.FormDataContentType(), body: body.Bytes()}, &made)
	return made.ID, err
}

// openAILine encodes a request as a line of the input file.
func openAILine(path string, it *Item) []byte {
	b := jsonx.AppendString([]byte(`{"custom_id":`), it.ID)
	b = jsonx.AppendString(append(b, `,"method":"POST","url":`...), "/v1"+path)
	b = append(append(b, `,"body":`...), it.Body...)
	return append(b, "}\n"...)
}

func (openAI) submit(ctx context.Context, t *Target, o *Order) (Remote, error) {
	body, err := json.Marshal(map[string]any{
		"input_file_id": o.Input, "endpoint": "/v1" + o.Path, "completion_window": "24h", "metadata": map[string]string{tagName: o.Tag},
	})
	if err != nil {
		return Remote{}, err
	}
	var made openAIBatch
	if err := t.read(ctx, &request{method: http.MethodPost, path: "/batches", contentType: header.JSON, body: body}, &made); err != nil {
		return Remote{}, err
	}
	return made.remote(), nil
}

// Pages of a list of batches, the latest first.
const (
	pageSize  = 100
	mostPages = 20
)

func (openAI) find(ctx context.Context, t *Target, o *Order, since time.Time) ([]Remote, error) {
	after := ""
	for range mostPages {
		q := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if after != "" {
			q.Set("after", after)
		}
		var page struct {
			Data []openAIBatch `json:"data"`
			More bool          `json:"has_more"`
		}
		if err := t.read(ctx, &request{method: http.MethodGet, path: "/batches?" + q.Encode()}, &page); err != nil {
			return nil, err
		}
		for i := range page.Data {
			b := &page.Data[i]
			if b.Metadata[tagName] == o.Tag {
				return []Remote{b.remote()}, nil
			}
			after = b.ID
			if b.CreatedAt < since.Add(-clockSkew).Unix() {
				return nil, nil
			}
		}
		if !page.More || len(page.Data) == 0 {
			break
		}
	}
	return nil, nil
}

// clockSkew is the tolerated difference between the provider's clock and this machine's.
const clockSkew = 5 * time.Minute

func (openAI) look(ctx context.Context, t *Target, id string) (Remote, error) {
	var b openAIBatch
	if err := t.read(ctx, &request{method: http.MethodGet, path: "/batches/" + url.PathEscape(id)}, &b); err != nil {
		return Remote{}, err
	}
	return b.remote(), nil
}

func (openAI) cancel(ctx context.Context, t *Target, id string) error {
	return t.read(ctx, &request{method: http.MethodPost, path: "/batches/" + url.PathEscape(id) + "/cancel", contentType: header.JSON}, nil)
}

func (openAI) results(ctx context.Context, t *Target, id string, each func(*Result) error) error {
	var b openAIBatch
	if err := t.read(ctx, &request{method: http.MethodGet, path: "/batches/" + url.PathEscape(id)}, &b); err != nil {
		return err
	}
	for _, file := range []string{b.Output, b.Errors} {
		if file == "" {
			continue
		}
		err := t.lines(ctx, "/files/"+url.PathEscape(file)+"/content", func(line []byte) error {
			r, ok := readOpenAILine(line)
			if !ok {
				return nil
			}
			return each(&r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readOpenAILine parses a line of an output or error file; ok is false for one that names no request.
func readOpenAILine(line []byte) (r Result, ok bool) {
	var l struct {
		ID       string `json:"custom_id"`
		Response *struct {
			Status int             `json:"status_code"`
			Body   json.RawMessage `json:"body"`
		} `json:"response"`
	}
	if json.Unmarshal(line, &l) != nil || l.ID == "" {
		return r, false
	}
	r.ID = l.ID
	if l.Response != nil && l.Response.Status >= http.StatusOK {
		r.Answered, r.Status, r.Body = true, l.Response.Status, l.Response.Body
	}
	return r, true
}

// forget deletes the files: the provider would store them for weeks.
func (openAI) forget(ctx context.Context, t *Target, r *Remote) error {
	for _, f := range r.Files {
		err := t.read(ctx, &request{method: http.MethodDelete, path: "/files/" + url.PathEscape(f)}, nil)
		if err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}
