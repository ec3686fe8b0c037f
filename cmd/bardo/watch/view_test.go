package watch

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/internal/goldentest"
)

var Update = flag.Bool("update", false, "write the golden files anew")

// noon is the time of everything in these tests.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// lines is a gateway's stream: two statuses a second apart, and four requests.
func lines() []string {
	request := func(at int, rest string) string {
		return fmt.Sprintf(`{"type":"request","at":%q,"cache":"miss",%s}`, noon.Add(time.Duration(at)*time.Second).Format(time.RFC3339), rest)
	}
	status := func(at int, served int, providers string) string {
		return fmt.Sprintf(`{"type":"status","at":%q,"under_way":3,"served":%d,"requests_today":1204,"cost_today_usd":12.345678,`+
			`"provider_cost_today_usd":10.28806512345,"holds":2,"held_usd":0.0031,"providers":[%s],"lost":0}`,
			noon.Add(time.Duration(at)*time.Second).Format(time.RFC3339), served, providers)
	}
	const healthy = `{"provider":"one","state":"healthy","requests":120,"error_rate":0.008,"order":1},{"provider":"two","state":"unknown","requests":0,"error_rate":0,"order":2}`
	const down = `{"provider":"one","state":"down","reason":"5 failures in a row","requests":6,"error_rate":0.833,"order":2},` +
		`{"provider":"two","state":"healthy","requests":8,"error_rate":0,"order":1},{"provider":"three","state":"disabled","requests":0,"error_rate":0,"order":0}`
	return []string{
		`{"type":"gateway","version":"v1.2.3","pid":42,"home":"/var/lib/bardo","started_at":"2026-03-04T08:47:55Z"}`,
		status(0, 100, healthy),
		request(0, `"id":"req_aaaaaaaaaaaaaaaaaaaaaaaa","dialect":"openai","stream":false,"requested_model":"small","model":"small","provider":"one",`+
			`"attempt_log":[{"provider":"one","outcome":"ok"}],"status":200,"outcome":"ok","input_tokens":16,"output_tokens":16,"cost_usd":0.000048,"savings_usd":0,"latency_ms":281`),
		request(1, `"id":"req_bbbbbbbbbbbbbbbbbbbbbbbb","dialect":"anthropic","stream":true,"requested_model":"small","model":"small","provider":"two",`+
			`"attempt_log":[{"provider":"one","outcome":"503"},{"provider":"two","outcome":"ok"}],"status":200,"outcome":"ok","input_tokens":12345,"output_tokens":1234567,`+
			`"cost_usd":1.500128,"savings_usd":0.25,"cache":"hash","latency_ms":12400,"first_token_ms":950`),
		request(2, `"id":"req_cccccccccccccccccccccccc","dialect":"openai","stream":false,"requested_model":"no-such-model\u001b[31m","model":"","provider":"",`+
			`"attempt_log":[],"status":404,"error":"model_not_found","outcome":"failed","input_tokens":0,"output_tokens":0,"cost_usd":0,"savings_usd":0,"latency_ms":0`),
		request(3, `"id":"req_dddddddddddddddddddddddd","dialect":"openai","stream":true,"requested_model":"模型-with-a-name-that-is-much-too-long-for-its-column","model":"","provider":"",`+
			`"attempt_log":[{"provider":"one","outcome":"timed out"}],"status":499,"error":"client_closed","outcome":"left","input_tokens":0,"output_tokens":0,"cost_usd":0,"savings_usd":0,"latency_ms":900`),
		status(2, 104, down),
	}
}

// seen is the view after some lines.
func seen(t testing.TB, lines ...string) *view {
	t.Helper()
	v := &view{zone: time.UTC}
	for _, line := range lines {
		s, err := parseUpdate([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		v.apply(s)
	}
	return v
}

func TestTheScreenAtEverySize(t *testing.T) {
	why := "it ended"
	for _, row := range []struct {
		name          string
		view          *view
		width, height int
	}{
		{"nothing yet", seen(t), 80, 10},
		{"a gateway without requests", seen(t, lines()[:2]...), 80, 12},
		{"wide", seen(t, lines()...), 160, 24},
		{"usual", seen(t, lines()...), 100, 24},
		{"narrow", seen(t, lines()...), 40, 24},
		{"low", seen(t, lines()...), 100, 13},
		{"tiny", seen(t, lines()...), 8, 3},
		{"gone", func() *view { v := seen(t, lines()...); v.apply(update{disconnected: &why}); return v }(), 100, 24},
		{"draining", seen(t, append(lines(), strings.Replace(lines()[1], `"under_way"`, `"draining":true,"under_way"`, 1))...), 80, 8},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := row.view.render(row.width, row.height, plainPalette)
			for line := range strings.Lines(got) {
				if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > row.width {
					t.Errorf("%d columns of %d in %q", n, row.width, line)
				}
			}
			if n := strings.Count(got, "\n") + 1; n > row.height {
				t.Errorf("%d lines of %d", n, row.height)
			}
			golden(t, filepath.Join("testdata", "watch", strings.ReplaceAll(row.name, " ", "_")+".golden"), got+"\n")
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	goldentest.Compare(t, file, got, *Update)
}

// Colours do not change widths, and escape sequences in client-chosen names do not reach the terminal.
func TestColoursTakeNoRoom(t *testing.T) {
	v := seen(t, lines()...)
	plain, painted := v.render(120, 24, plainPalette), v.render(120, 24, coloured)
	if plain == painted {
		t.Error("nothing is painted")
	}
	if got := ansi.Strip(painted); got != plain {
		t.Errorf("painted\n%s\nplain\n%s", got, plain)
	}
	if strings.ContainsRune(plain, '\x1b') {
		t.Error("a client's escape sequence reaches the terminal")
	}
}

func TestRatesAndSums(t *testing.T) {
	v := seen(t, lines()...)
	if got := v.perSecond(); got != 2 {
		t.Errorf("%v requests per second, want 2", got)
	}
	want := totals{requests: 4, failed: 2, failedOver: 1, input: 12361, output: 1234583, cost: 1_500_176, savings: 250_000}
	if v.seen != want {
		t.Errorf("got %+v, want %+v", v.seen, want)
	}
	v.apply(update{gateway: &control.GatewayLine{}}) // another gateway, which counts from zero
	if got := v.perSecond(); got != 0 {
		t.Errorf("%v requests per second of a gateway that has said nothing", got)
	}
	if v.seen != want {
		t.Errorf("what was seen before is forgotten: %+v", v.seen)
	}
}

func TestAWatcherRemembersWhatAScreenCanShow(t *testing.T) {
	v := &view{}
	const all = 5*keptRequests + 7
	for i := range all {
		v.apply(update{request: &requestLine{LatencyMS: int64(i)}})
	}
	last := v.newest(keptRequests)
	for i, r := range last {
		if r.LatencyMS != int64(all-1-i) {
			t.Fatalf("place %d has request %d", i, r.LatencyMS)
		}
	}
	if len(last) != keptRequests || len(v.requests) > 2*keptRequests || v.seen.requests != all {
		t.Errorf("%d shown, %d kept, of %d", len(last), len(v.requests), v.seen.requests)
	}
}

func TestPlainLines(t *testing.T) {
	for i, want := range map[int]string{
		1: "",
		2: "2026-03-04T12:00:00Z 200 request=req_aaaaaaaaaaaaaaaaaaaaaaaa dialect=openai stream=false asked=small model=small provider=one tried=one attempts=1 in=16 out=16 cost_usd=0.000048 saved_usd=0.000000 cache=miss ms=281 outcome=ok",
		3: "2026-03-04T12:00:01Z 200 request=req_bbbbbbbbbbbbbbbbbbbbbbbb dialect=anthropic stream=true asked=small model=small provider=two tried=one,two attempts=2 in=12345 out=1234567 cost_usd=1.500128 saved_usd=0.250000 cache=hash ms=12400 first_ms=950 outcome=ok",
		4: `2026-03-04T12:00:02Z 404 request=req_cccccccccccccccccccccccc dialect=openai stream=false asked="no-such-model\x1b[31m" attempts=0 in=0 out=0 cost_usd=0.000000 saved_usd=0.000000 cache=miss ms=0 outcome=failed error=model_not_found`,
	} {
		s, err := parseUpdate([]byte(lines()[i]))
		if err != nil {
			t.Fatal(err)
		}
		if got := plainLine(s); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	for _, row := range []struct{ got, want string }{
		{count(999), "999"},
		{count(1000), "1.0k"},
		{count(1_234_567), "1.2M"},
		{millis(999), "999ms"},
		{millis(2400), "2.4s"},
		{span(59 * time.Second), "59s"},
		{span(61 * time.Second), "1m1s"},
		{span(3*time.Hour + 12*time.Minute + 5*time.Second), "3h12m"},
		{span(49 * time.Hour), "2d1h"},
	} {
		if row.got != row.want {
			t.Errorf("got %s, want %s", row.got, row.want)
		}
	}
}

// Every line is parsed or rejected, and what was parsed can be rendered.
func FuzzParseUpdate(f *testing.F) {
	for _, line := range lines() {
		f.Add([]byte(line), 80, 24)
	}
	f.Add([]byte(`{"type":"request","cost_usd":"1"}`), 1, 1)
	f.Add([]byte(`{"type":"status","held_usd":-0.00000000001}`), 0, -1)
	f.Fuzz(func(t *testing.T, line []byte, width, height int) {
		s, err := parseUpdate(line)
		if err != nil {
			return
		}
		v := &view{}
		v.apply(s)
		got := v.render(width%500, height%500, plainPalette) + plainLine(s)
		if strings.ContainsRune(got, '\x1b') {
			t.Errorf("%q reaches the terminal as %q", line, got)
		}
	})
}
