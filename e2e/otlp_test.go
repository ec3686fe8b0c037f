package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// collector is a running OpenTelemetry Collector, and the folder of what it got.
type collector struct{ address, dir string }

// startCollector starts the collector that `make otelcol` installs. protocol is http or grpc.
func startCollector(t *testing.T, protocol string) collector {
	t.Helper()
	bin := os.Getenv("OTELCOL_BIN")
	if bin == "" {
		root, err := proctest.Root()
		if err != nil {
			t.Fatal(err)
		}
		bin = filepath.Join(root, ".tools", "go", "otelcol")
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("no OpenTelemetry Collector to test with (%v): run `make otelcol`, or name one in OTELCOL_BIN", err)
	}
	c := collector{gateway.FreeAddress(t), t.TempDir()}
	config := fmt.Sprintf(`yaml:{receivers: {otlp: {protocols: {%s: {endpoint: %q}}}}, exporters: {lines: {dir: %q}},
  service: {pipelines: {traces: {receivers: [otlp], exporters: [lines]}, metrics: {receivers: [otlp], exporters: [lines]}}}}`,
		protocol, c.address, c.dir)
	cmd := exec.Command(bin, "--config", config) //nolint:noctx // it ends with the test
	var out proctest.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	eventually(t, "the collector", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return c
}

// otlpSpan is a span as the collector writes it.
type otlpSpan struct {
	TraceID    string `json:"traceId"`
	ID         string `json:"spanId"`
	Parent     string `json:"parentSpanId"`
	Name       string `json:"name"`
	Kind       int    `json:"kind"`
	Start      string `json:"startTimeUnixNano"`
	End        string `json:"endTimeUnixNano"`
	Attributes []struct {
		Key   string
		Value map[string]any
	}
}

func (s *otlpSpan) is(key string) string {
	for _, a := range s.Attributes {
		if a.Key != key {
			continue
		}
		for _, v := range a.Value {
			return fmt.Sprint(v)
		}
	}
	return ""
}

// spans are all that the collector got.
func (c collector) spans(t *testing.T) (all []otlpSpan) {
	t.Helper()
	f, err := os.Open(filepath.Join(c.dir, "traces.jsonl"))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewReader(f); ; {
		text, err := s.ReadBytes('\n')
		if err != nil {
			return all
		}
		var line struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []otlpSpan }
			}
		}
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatal(err)
		}
		for _, r := range line.ResourceSpans {
			for _, s := range r.ScopeSpans {
				all = append(all, s.Spans...)
			}
		}
	}
}

// traceOf waits for the trace of an answer: the request's span, and those below it.
func (c collector) traceOf(t *testing.T, got gateway.Answer) (root otlpSpan, below []otlpSpan) {
	t.Helper()
	id := got.Header.Get("X-Request-Id")
	eventually(t, "the trace of "+id, func() bool {
		for _, s := range c.spans(t) {
			if s.is("bardo.request.id") == id {
				root = s
				return true
			}
		}
		return false
	})
	for _, s := range c.spans(t) {
		if s.TraceID == root.TraceID && s.Parent == root.ID {
			below = append(below, s)
		}
	}
	return root, below
}

// callSpans are the calls of providers.
func callSpans(below []otlpSpan) (out []otlpSpan) {
	for _, s := range below {
		if s.is("bardo.attempt.number") != "" {
			out = append(out, s)
		}
	}
	return out
}

// The markers of the test: what must stand nowhere.
const (
	promptMarker   = "marker-of-a-prompt"
	answerMarker   = "marker-of-an-answer"
	argumentMarker = "marker-of-an-argument"
	errorMarker    = "marker-of-an-error"
)

const clientTrace = "0af7651916cd43dd8448eb211c80319c"

// TestE04ACollectorGetsBothAttemptsOfAFailover: on both paths and over both protocols, in the client's trace, and without any content.
func TestE04ACollectorGetsBothAttemptsOfAFailover(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"http", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := startCollector(t, protocol)
			first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
			second := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "second"})
			second.Behave(fake.Behaviour{Text: answerMarker, ToolCalls: []fake.ToolCall{{Name: "f", Args: `{"q":"` + argumentMarker + `"}`}}})
			g := gateway.Run(t, gateway.Options{
				Config: quick + fmt.Sprintf("telemetry: {otlp: \"http://%s\", otlp_protocol: %s, otlp_interval: 500ms, otlp_propagate: [second], otlp_headers: {x-receiver: %q}}\n",
					c.address, protocol, "secret-of-the-receiver"),
				Providers: []gateway.Provider{
					{ID: "first", Fake: first, Models: models("m", "")}, {ID: "second", Fake: second, Format: "anthropic", Models: models("m", "")},
				},
			})
			eventually(t, "a trace", func() bool { // in Envoy's process, the first requests may have none
				g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
				return len(c.spans(t)) > 0
			})
			for _, stream := range []bool{false, true} {
				first.Queue(fake.Behaviour{Status: 503, Message: errorMarker})
				a := ask{dialect: fake.OpenAI, model: "m", stream: stream, say: promptMarker, more: tools}
				got := g.Do(t, a.call("traceparent: 00-"+clientTrace+"-b7ad6b7169203331-01", "tracestate: vendor="+promptMarker))
				if got.Status != http.StatusOK {
					t.Fatalf("%d %s", got.Status, got.Body)
				}
				root, below := c.traceOf(t, got)
				checkFailover(t, root, callSpans(below))
				if sent, _ := second.Last(); sent.Header.Get("Traceparent") != "00-"+root.TraceID+"-"+root.ID+"-01" || sent.Header.Get("Tracestate") != "" {
					t.Errorf("the second provider was sent %v", sent.Header)
				}
				if sent, _ := first.Last(); sent.Header.Get("Traceparent") != "" {
					t.Error("a provider that is not named was sent the trace context")
				}
			}
			first.Queue(fake.Behaviour{Status: 503})
			got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", say: promptMarker + " again"}.call("X-Bardo-Security-Class: confidential"))
			if root, _ := c.traceOf(t, got); root.Parent != "" || root.TraceID == clientTrace {
				t.Errorf("a request without a trace of its client's is in one: %+v", root)
			}
			if sent, _ := second.Last(); !bytes.Contains(sent.Body, []byte("again")) || sent.Header.Get("Traceparent") != "" {
				t.Error("a confidential request carries its trace context")
			}
			checkMetrics(t, c)
			c.hides(t, promptMarker, answerMarker, argumentMarker, errorMarker, g.Key, first.Key, second.Key, "secret-of-the-receiver")
		})
	}
}

const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"q":{"type":"string"}}}}}]`

func checkFailover(t *testing.T, root otlpSpan, calls []otlpSpan) {
	t.Helper()
	if root.TraceID != clientTrace || root.Parent != "b7ad6b7169203331" || root.Kind != 2 || root.Name != "chat m" || root.is("gen_ai.provider.name") != "second" ||
		root.is("openinference.span.kind") != "LLM" || root.is("gen_ai.usage.output_tokens") == "" || root.is("bardo.outcome") != "ok" {
		t.Errorf("the request: %+v", root)
	}
	if len(calls) != 2 {
		t.Fatalf("%d attempts: %+v", len(calls), calls)
	}
	if calls[0].is("bardo.attempt.number") != "1" {
		calls[0], calls[1] = calls[1], calls[0]
	}
	if calls[0].is("gen_ai.provider.name") != "first" || calls[0].is("error.type") != "status_503" || calls[0].is("bardo.attempt.next_reason") == "" || calls[0].Kind != 3 {
		t.Errorf("the first attempt: %+v", calls[0])
	}
	if calls[1].is("gen_ai.provider.name") != "second" || calls[1].is("bardo.attempt.outcome") != "ok" || calls[1].is("error.type") != "" {
		t.Errorf("the second attempt: %+v", calls[1])
	}
	if at := times(t, root, calls[0], calls[1]); at[0] > at[2] || at[2] > at[3] || at[3] > at[4] || at[4] >= at[5] || at[5] > at[1] {
		t.Errorf("the request, and its two attempts: %v", at)
	}
}

// times are when each span began and ended.
func times(t *testing.T, spans ...otlpSpan) (out []int64) {
	t.Helper()
	for _, s := range spans {
		for _, text := range []string{s.Start, s.End} {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}

// checkMetrics waits for metrics of the conventions, and of the gateway itself.
func checkMetrics(t *testing.T, c collector) {
	t.Helper()
	for _, part := range []string{`"gen_ai.client.operation.duration"`, `"gen_ai.client.token.usage"`, `"gen_ai.provider.name"`, `"bardo_requests_total"`, `"bardo_failovers_total"`} {
		eventually(t, "the metric "+part, func() bool {
			b, err := os.ReadFile(filepath.Join(c.dir, "metrics.jsonl"))
			return err == nil && bytes.Contains(b, []byte(part))
		})
	}
}

// hides fails the test where the collector got something that it must not.
func (c collector) hides(t *testing.T, secrets ...string) {
	t.Helper()
	for _, name := range []string{"traces.jsonl", "metrics.jsonl"} {
		b, err := os.ReadFile(filepath.Join(c.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range secrets {
			if strings.Contains(string(b), s) {
				t.Errorf("%s has %q", name, s)
			}
		}
	}
}

// TestE04ACollectorThatIsAwayStopsNoRequest, and what it misses is counted.
func TestE04ACollectorThatIsAwayStopsNoRequest(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "only"})
	g := gateway.Run(t, gateway.Options{
		Config: quick + "telemetry: {otlp: \"http://" + deadAddress + "\"}\n", Providers: []gateway.Provider{{ID: "only", Fake: p, Models: models("m", "")}},
	})
	for range 5 {
		if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	eventually(t, "spans that were not sent", func() bool { return g.Metrics(t).Sum("bardo_otlp_spans_total", `result="failed"`) >= 10 })
}
