package promptlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/prompts"
)

// receiver sends entries as OTLP log records, over HTTP as JSON. Retries follow https://opentelemetry.io/docs/specs/otlp/#otlphttp.
type receiver struct {
	url        string
	headers    map[string]config.Secret
	client     http.Client
	retryDelay time.Duration // before the second call; doubled before the third
}

var _ prompts.Sink = (*receiver)(nil)

const (
	// callTimeout bounds one call of a receiver.
	callTimeout = 10 * time.Second
	maxCalls    = 3
)

func newReceiver(p *config.Prompts) *receiver {
	return &receiver{
		url: p.OTLP.String() + "/v1/logs", headers: p.OTLPHeaders, retryDelay: time.Second,
		client: http.Client{
			Timeout:       callTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // content goes only where the operator says
		},
	}
}

// Tidy implements prompts.Sink: retention is up to the receiver.
func (*receiver) Tidy(context.Context, time.Time) error { return nil }

// Close implements prompts.Sink.
func (r *receiver) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// Write implements prompts.Sink.
func (r *receiver) Write(ctx context.Context, batch []*prompts.Entry) error {
	body, err := encode(batch)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		retry, err := r.call(ctx, body)
		if err == nil || !retry || n == maxCalls-1 {
			return err
		}
		select {
		case <-time.After(r.retryDelay << n):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// call sends records once; retry reports whether it may be retried.
func (r *receiver) call(ctx context.Context, body []byte) (retry bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	for name, value := range r.headers {
		req.Header.Set(name, value.Reveal())
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return true, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	err = errors.Join(err, resp.Body.Close())
	switch resp.StatusCode {
	case http.StatusOK:
		return false, err
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		retry = true
	}
	return retry, fmt.Errorf("telemetry.prompts.otlp: status %d", resp.StatusCode)
}

// The parts of OTLP's ExportLogsServiceRequest that are used, as JSON.
type (
	export struct {
		ResourceLogs []resourceLogs `json:"resourceLogs"`
	}
	resourceLogs struct {
		Resource  resource    `json:"resource"`
		ScopeLogs []scopeLogs `json:"scopeLogs"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeLogs struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		LogRecords []logRecord `json:"logRecords"`
	}
	logRecord struct {
		Time       string      `json:"timeUnixNano"`
		Severity   int         `json:"severityNumber"`
		Event      string      `json:"eventName"`
		Body       value       `json:"body"`
		Attributes []attribute `json:"attributes"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String string `json:"stringValue"`
	}
)

const (
	severityInfo = 9
	eventName    = "bardo.prompt"
)

// encode encodes entries as log records, with the entry's JSON as the body.
func encode(batch []*prompts.Entry) ([]byte, error) {
	s := scopeLogs{}
	s.Scope.Name = "bardo.money/gateway/internal/prompts"
	for _, e := range batch {
		text, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		s.LogRecords = append(s.LogRecords, logRecord{
			Time: strconv.FormatInt(e.At.UnixNano(), 10), Severity: severityInfo, Event: eventName, Body: value{string(text)},
			Attributes: []attribute{
				{"bardo.request.id", value{e.RequestID}},
				{"bardo.account", value{string(e.Account)}},
				{"gen_ai.provider.name", value{string(e.Provider)}},
				{"gen_ai.response.model", value{string(e.Model)}},
			},
		})
	}
	return json.Marshal(export{[]resourceLogs{{Resource: resource{[]attribute{{"service.name", value{"bardo"}}}}, ScopeLogs: []scopeLogs{s}}}})
}
