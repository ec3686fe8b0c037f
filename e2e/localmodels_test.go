package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/modeltest"
)

// The local models run in the program bardo, beside the data path or, with data_path: module, in another process than it.
var dataPaths = []string{"extproc", "module"}

// withModels is a configuration with the installed models, whose embedder serves clients.
func withModels(t *testing.T) string {
	t.Helper()
	return quick + "models: {dir: " + modeltest.Dir(t) + "}\ninference: {embeddings: {provider: local}}\n"
}

const localModel = "local/all-minilm-l6-v2"

// floats are the vectors of an answer.
func (e *embedded) floats(t *testing.T) (all [][]float64) {
	t.Helper()
	for i := range e.Data {
		var v []float64
		if err := json.Unmarshal(e.Data[i].Embedding, &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// TestC18ALocalModelMakesEmbeddings: in OpenAI's format, counted by its tokenizer, recorded and free of charge, in both dataPaths of the data path.
func TestC18ALocalModelMakesEmbeddings(t *testing.T) {
	t.Parallel()
	for _, shape := range dataPaths {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
			g := gateway.Run(t, gateway.Options{DataPath: shape, Config: withModels(t), Providers: []gateway.Provider{{ID: "openai", Fake: p}}})
			key := g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
			c := embeds(`{"model":"` + localModel + `","input":["How do I add liquidity to a pool?","How can I add liquidity to a pool?","The weather in Paris is mild."],"dimensions":384}`)
			c.Key = key
			got := g.Do(t, c)
			var e embedded
			got.JSON(t, &e)
			v := e.floats(t)
			if got.Status != http.StatusOK || e.Model != localModel || e.Object != "list" || len(v) != 3 || len(v[0]) != 384 || dot(v[0], v[1]) < 0.9 || dot(v[0], v[2]) > 0.4 {
				t.Fatalf("%d %.300s", got.Status, got.Body)
			}
			if h := got.Header; h.Get("X-Bardo-Provider") != "local" || h.Get("X-Bardo-Model") != localModel || h.Get("X-Bardo-Cost") != "0.000000" {
				t.Errorf("headers %v", h)
			}
			if e.Usage.Prompt != 33 || e.Usage.Total != 33 {
				t.Errorf("usage %+v", e.Usage)
			}
			b := billOf(t, g, key, got.Header.Get("X-Request-Id"))
			if b.InputTokens != 33 || balanceOf(t, g, key) != 1_000_000 {
				t.Errorf("the record says %+v, the balance is %d", b, balanceOf(t, g, key))
			}
			for _, r := range p.Requests() {
				if r.Path != "/v1/models" { // a ping
					t.Errorf("a provider got a request: %s", r.Path)
				}
			}
			auto := embeds(`{"model":"auto","input":"The weather in Paris is mild.","encoding_format":"base64"}`)
			e = embedded{}
			g.Do(t, auto).JSON(t, &e)
			var text string
			if err := json.Unmarshal(e.Data[0].Embedding, &text); err != nil || e.Model != localModel {
				t.Fatalf("auto: %v, model %s", err, e.Model)
			}
			if raw, err := base64.StdEncoding.DecodeString(text); err != nil || len(raw) != 4*384 {
				t.Errorf("base64: %d bytes, %v", len(raw), err)
			}
			private := embeds(`{"model":"` + localModel + `","bardo":{"security_class":"private"},"input":"x"}`)
			if got := g.Do(t, private); got.Status != http.StatusOK {
				t.Errorf("a private request: %d %s", got.Status, got.Body)
			}
			assertLocalModelListed(t, g)
			assertLocalModelRefuses(t, g)
			g.AssertSound(t)
		})
	}
}

func assertLocalModelListed(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	for _, path := range []string{"/v1/models", "/v1/models/" + localModel} {
		got := g.Do(t, gateway.Call{Method: http.MethodGet, Path: path})
		for _, want := range []string{`"id":"` + localModel + `"`, `"owned_by":"local"`, `"dimensions":384`, `"source":"local"`} {
			if got.Status != http.StatusOK || !strings.Contains(got.Body, want) {
				t.Errorf("%s: %d %.300s, want %s", path, got.Status, got.Body, want)
			}
		}
	}
}

func assertLocalModelRefuses(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	for body, want := range map[string]string{
		`"input":"x","dimensions":100`:                      `"param":"dimensions"`,
		`"input":[1,2,3]`:                                   "another model's vocabulary",
		`"input":"` + strings.Repeat("word ", 300) + `"`:    "more than the 256 tokens",
		`"input":["x"` + strings.Repeat(`,"x"`, 2048) + `]`: "more than 2048 texts",
		`"input":"x","encoding_format":"int8"`:              `"param":"encoding_format"`,
	} {
		got := g.Do(t, embeds(`{"model":"`+localModel+`",`+body+`}`))
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, want) || !strings.Contains(got.Body, `"type":"invalid_request_error"`) {
			t.Errorf("%.60s: %d %.300s, want %s", body, got.Status, got.Body, want)
		}
	}
	c := embeds(`{"model":"` + localModel + `","input":"x"}`)
	c.Header = []string{"X-Bardo-Route: explain"}
	if got := g.Do(t, c); got.Status != http.StatusBadRequest {
		t.Errorf("explained: %d %s", got.Status, got.Body)
	}
}

// TestC18WithoutTheKeyNoLocalModelServes: nothing changes for a gateway that does not ask for it.
func TestC18WithoutTheKeyNoLocalModelServes(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "openai", Fake: p}}})
	for _, model := range []string{localModel, "auto"} {
		if got := g.Do(t, embeds(`{"model":"`+model+`","input":"x"}`)); got.Status/100 != 4 {
			t.Errorf("%s: %d %s", model, got.Status, got.Body)
		}
	}
	if got := g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/models"}); strings.Contains(got.Body, `"local`) {
		t.Errorf("%.300s", got.Body)
	}
}

// TestC18VeniceMakesEmbeddings: a request that names no model gets the operator's at Venice.
func TestC18VeniceMakesEmbeddings(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Vendor: fake.Venice})
	g := gateway.Run(t, gateway.Options{Config: quick + "inference: {embeddings: {provider: venice}}\n", Providers: []gateway.Provider{
		{ID: "venice", Fake: p, Models: []gateway.Model{{ID: "text-embedding-bge-m3", Price: "{input: 0.15, output: 0}", More: "capabilities: [embeddings]"}}},
	}})
	got := g.Do(t, embeds(`{"model":"auto","input":"x"}`))
	if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "venice" || !strings.Contains(string(lastOf(t, p).Body), `"text-embedding-bge-m3"`) {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
}

// TestModelsOfAProgramThatIsAway: with the data path in Envoy's process, models are off while the program that runs them does not answer, and other
// requests are served; they are there again with it, also after both were killed.
func TestModelsOfAProgramThatIsAway(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o := gateway.Options{
		DataPath: "module", Config: withModels(t), Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m"}}}},
	}
	g, err := gateway.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ask := embeds(`{"model":"` + localModel + `","input":"x"}`)
	if got := g.Do(t, ask); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	eventually(t, "the data path's own checks", func() bool {
		return strings.Contains(g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/readyz?verbose"}).Body, "all-minilm-l6-v2 is in memory")
	})
	if err := syscall.Kill(g.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	late := make(chan gateway.Answer, 1)
	go func() { late <- g.Do(t, ask) }()
	for range 5 {
		if got := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`); got.Status != http.StatusOK {
			t.Errorf("a request beside it: %d %s", got.Status, got.Body)
		}
	}
	eventually(t, "the program that does not answer", func() bool { // it stops when its threads are scheduled next
		return strings.Contains(g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/readyz?verbose"}).Body, "the program that runs them does not answer")
	})
	if err := syscall.Kill(g.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := <-late; got.Status != http.StatusOK && got.Status != http.StatusGatewayTimeout {
		t.Errorf("the one that waited: %d %s", got.Status, got.Body)
	}
	eventually(t, "the model again", func() bool { return g.Do(t, ask).Status == http.StatusOK })
	g.Kill()
	o.Home = g.Home
	again := gateway.Run(t, o)
	if got := again.Do(t, ask); got.Status != http.StatusOK {
		t.Errorf("after the crash: %d %s", got.Status, got.Body)
	}
	again.AssertSound(t)
}

// TestManyEmbeddingsDoNotDelayStreams: streams go on while the model is busy.
func TestManyEmbeddingsDoNotDelayStreams(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: withModels(t), Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m"}}}}})
	batch := `{"model":"` + localModel + `","input":["` + strings.Repeat(`some words to embed","`, 60) + `x"]}`
	done := make(chan int, 12)
	for range cap(done) {
		go func() { done <- g.Do(t, embeds(batch)).Status }()
	}
	for i := range 5 {
		if got := g.Chat(t, fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":"%d"}]}`, i)); got.Status != http.StatusOK || !strings.Contains(got.Body, "[DONE]") {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	counts := map[int]int{}
	for range cap(done) {
		counts[<-done]++
	}
	if counts[http.StatusOK] < 8 || counts[http.StatusOK]+counts[http.StatusServiceUnavailable] != cap(done) {
		t.Errorf("statuses %v: eight at a time are served, the others refused", counts)
	}
	g.AssertSound(t)
}
