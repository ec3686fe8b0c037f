package gateway

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestConfigNamesProvidersInOrder(t *testing.T) {
	t.Parallel()
	got := Options{
		Providers: []Provider{
			{ID: "a", BaseURL: "http://127.0.0.1:1/v1", Key: "ka", Models: []Model{{ID: "m", Upstream: "up", Price: "{input: 1, output: 2}"}, {ID: "n"}}},
			{ID: "anthropic", BaseURL: "http://127.0.0.1:2/v1", Key: "kb"},
		},
		Config: "routing: {max_retries: 1}\n", DataPath: "module",
	}.yaml()
	want := `listen: {http: 127.0.0.1:0, https: 127.0.0.1:0, admin: 127.0.0.1:0}
data_path: module
providers:
  anthropic: {api_key: "kb", base_url: "http://127.0.0.1:2/v1"}
  order: [a, anthropic]
  custom:
    - {id: a, format: openai, endpoints: ["http://127.0.0.1:1/v1"], api_key: "ka", models: [{id: "m", upstream_id: "up", price: {input: 1, output: 2}}, {id: "n"}]}
billing: {spread_pct: 20}
routing: {max_retries: 1}
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReaderIsStrict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		want     int
		err      error
	}{
		{"events and a comment", ": heartbeat\nevent: a\ndata: 1\n\n: bardo {}\ndata: [DONE]\n\n", 4, io.EOF},
		{"an event that is cut", "data: 1\n\ndata: 2", 1, io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := NewReader(strings.NewReader(c.in))
			n := 0
			for {
				_, err := r.Next()
				if err != nil {
					if !errors.Is(err, c.err) {
						t.Errorf("got %v, want %v", err, c.err)
					}
					break
				}
				n++
			}
			if n != c.want {
				t.Errorf("%d events, want %d", n, c.want)
			}
		})
	}
	if _, err := NewReader(strings.NewReader("data: 1\n: heartbeat\n\n")).Next(); err == nil {
		t.Error("a comment inside an event was accepted")
	}
}

func TestMetricsSumByLabel(t *testing.T) {
	t.Parallel()
	m := Metrics{`a_total{x="1",y="2"}`: 3, `a_total{x="2"}`: 4, "a_total_b": 9, "c": 1}
	if got := m.Sum("a_total"); got != 7 {
		t.Errorf("sum %v", got)
	}
	if got := m.Sum("a_total", `x="2"`) + m.Sum("c"); got != 5 {
		t.Errorf("sum %v", got)
	}
}
