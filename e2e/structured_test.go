package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// shapes are the ways in which a provider can be asked for a form, by what its models can do.
var shapes = []struct{ mode, capabilities string }{
	{"enforced", "[tools, structured_outputs]"},
	{"tool", "[tools]"},
	{"prompted", "[vision]"},
}

// shaper is a client that asks for a form, in one of the four formats.
type shaper string

var shapers = []shaper{"openai", "anthropic", "responses", "gemini"}

// call asks a model, with further members of the client's own format.
func (s shaper) call(model string, stream bool, say, more string, header ...string) gateway.Call {
	if more != "" {
		more = "," + more
	}
	streams := ""
	if stream {
		streams = `,"stream":true`
	}
	c := gateway.Call{Header: header}
	switch s {
	case "openai":
		c.Path, c.Body = "/v1/chat/completions", fmt.Sprintf(`{"model":%q%s,"messages":[{"role":"user","content":%q}]%s}`, model, streams, say, more)
	case "anthropic":
		c.Path = "/v1/messages"
		c.Body = fmt.Sprintf(`{"model":%q,"max_tokens":400%s,"messages":[{"role":"user","content":%q}]%s}`, model, streams, say, more)
		c.Header = append([]string{"anthropic-version: 2023-06-01"}, header...)
	case "responses":
		c.Path, c.Body = "/v1/responses", fmt.Sprintf(`{"model":%q%s,"input":%q%s}`, model, streams, say, more)
	default:
		c.Path, c.Body = geminiPath(model, stream), fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":%q}]}]%s}`, say, more)
	}
	return c
}

// schema is what the client says to have a schema followed.
func (s shaper) schema(name, schema string) string {
	switch s {
	case "openai":
		return fmt.Sprintf(`"response_format":{"type":"json_schema","json_schema":{"name":%q,"strict":true,"schema":%s}}`, name, schema)
	case "anthropic":
		return fmt.Sprintf(`"output_config":{"format":{"type":"json_schema","schema":%s}}`, schema)
	case "responses":
		return fmt.Sprintf(`"text":{"format":{"type":"json_schema","name":%q,"strict":true,"schema":%s}}`, name, schema)
	}
	return fmt.Sprintf(`"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":%s}`, schema)
}

// text is what the answer says.
func (s shaper) text(t testing.TB, got gateway.Answer, stream bool) string {
	t.Helper()
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("%d %v %s", got.Status, got.Err, got.Body)
	}
	if s == "responses" {
		var r response
		if stream {
			r = streamed(t, got)
		} else {
			got.JSON(t, &r)
		}
		return r.text()
	}
	return text(t, ask{dialect: fake.Dialect(s), stream: stream}, got)
}

// fails is the error that the client reads, as JSON or as the last event of a stream.
func (s shaper) fails(t testing.TB, got gateway.Answer) (code string, details schemaDetails) {
	t.Helper()
	body := got.Body
	if strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
		evs := got.Events(t)
		body = evs[len(evs)-1].Data
	}
	var e struct {
		Error struct {
			Code    json.RawMessage
			Details json.RawMessage
		}
		Response struct{ Error struct{ Code string } }
		Code     string
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%v: %s", err, got.Body)
	}
	if s == "gemini" {
		var list []struct {
			Reason string
			Value  schemaDetails
		}
		if err := json.Unmarshal(e.Error.Details, &list); err != nil || len(list) != 2 {
			t.Fatalf("%v: %s", err, body)
		}
		return list[0].Reason, list[1].Value
	}
	if len(e.Error.Details) == 0 {
		t.Fatalf("no details in %s", body)
	}
	if err := json.Unmarshal(e.Error.Details, &details); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if err := json.Unmarshal(e.Error.Code, &code); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return code, details
}

type schemaDetails struct {
	Schema, Raw string
	Issues      []string
	Retries     int
}

const personSchema = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0}},"required":["name","age"],"additionalProperties":false}`

// plainSchema has nothing that any provider would not enforce.
const plainSchema = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"],"additionalProperties":false}`

// shaped is a gateway with a provider of each format, each with a model for each way to be asked: openai-enforced, and so on. Each model's
// price is its own.
func shaped(t *testing.T, config string) (*gateway.Gateway, map[string]*fake.Server) {
	t.Helper()
	fakes := map[string]*fake.Server{}
	o := gateway.Options{Config: hasty + config}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini} {
		s := fake.Start(t, fake.Config{Dialect: d})
		fakes[string(d)] = s
		p := gateway.Provider{ID: "at-" + string(d), Fake: s, Format: string(d)}
		for i, shape := range shapes {
			id := string(d) + "-" + shape.mode
			p.Models = append(p.Models, gateway.Model{ID: id, Price: fmt.Sprintf("{input: %d, output: %d}", i+1, 2*(i+1)), More: "max_output: 8000, capabilities: " + shape.capabilities})
		}
		o.Providers = append(o.Providers, p)
	}
	return gateway.Run(t, o), fakes
}

// mustSay checks what X-Bardo-Schema says, or the last comment of a stream.
func mustSay(t testing.TB, got gateway.Answer, s shaper, stream bool, want string) {
	t.Helper()
	word := got.Header.Get("X-Bardo-Schema")
	if stream && s != "gemini" {
		if c := summaryOf(t, got); c.Schema != want {
			t.Errorf("the last comment says %q of the schema, want %q", c.Schema, want)
		}
		if !strings.HasPrefix(want, word) || word == "" {
			t.Errorf("X-Bardo-Schema: %q, want the beginning of %q", word, want)
		}
		return
	}
	if word != want && (!stream || word == "" || !strings.HasPrefix(want, word)) {
		t.Errorf("X-Bardo-Schema: %q, want %q", word, want)
	}
}

// TestO01AnswersHaveTheFormThatWasAskedFor: a subsystem's and a caller's own, of every client, at every provider, in every way.
func TestO01AnswersHaveTheFormThatWasAskedFor(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	for name := range fakes {
		for _, shape := range shapes {
			for _, client := range shapers {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/stream=%v", name, shape.mode, client, stream), func(t *testing.T) {
						t.Parallel()
						model := name + "-" + shape.mode
						got := g.Do(t, client.call(model, stream, "hi", "", "X-Bardo-Subsystem: hypnagogic_observer"))
						var f struct {
							Novelty, Relevance, Coherence *float64
							Verdict                       string
						}
						said := client.text(t, got, stream)
						if err := json.Unmarshal([]byte(said), &f); err != nil || f.Verdict == "" || f.Novelty == nil {
							t.Errorf("the agent reads %q: %v", said, err)
						}
						mustSay(t, got, client, stream, shape.mode+"; valid=true; retries=0")

						got = g.Do(t, client.call(model, stream, "hi", client.schema("person", personSchema)))
						var p struct {
							Name *string
							Age  *int
						}
						said = client.text(t, got, stream)
						if err := json.Unmarshal([]byte(said), &p); err != nil || p.Name == nil || p.Age == nil {
							t.Errorf("the caller reads %q: %v", said, err)
						}
						mustSay(t, got, client, stream, shape.mode+"; valid=true; retries=0")
						if rec := schemaRecord(t, g, got); rec.Schema != shape.mode+"; valid=true; retries=0" {
							t.Errorf("the record says %q", rec.Schema)
						}
					})
				}
			}
		}
	}
}

type recordedSchema struct {
	bill
	Schema     string
	Degraded   []string
	AttemptLog []struct{ Provider, Model, Outcome string } `json:"attempt_log"`
}

func schemaRecord(t testing.TB, g *gateway.Gateway, got gateway.Answer) (r recordedSchema) {
	t.Helper()
	recordOf(t, g, got)
	get(t, g, "", "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
	return r
}

// form is a subsystem's own, with a default.
const observer = "X-Bardo-Subsystem: hypnagogic_observer"

// prepaid makes a key with a balance.
func prepaid(t testing.TB, g *gateway.Gateway) gateway.NewKey {
	t.Helper()
	return g.CreateKey(t, "--name", "prepaid", "--balance-usd", "10")
}

// TestO04ARetryIsToldWhatIsWrongAndPaidFor: of every client, in every way, streamed or not.
func TestO04ARetryIsToldWhatIsWrongAndPaidFor(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	k := prepaid(t, g)
	left := balanceOf(t, g, k.Key)
	for name, p := range fakes {
		for i, shape := range shapes {
			for _, client := range shapers {
				for _, stream := range []bool{false, true} {
					// one after the other: the fake's answers are queued
					t.Run(fmt.Sprintf("%s/%s/%s/stream=%v", name, shape.mode, client, stream), func(t *testing.T) {
						model := name + "-" + shape.mode
						p.QueueFor(model,
							fake.Behaviour{Flaw: fake.WrongRange, Usage: &fake.Usage{Input: 100, Output: 30}},
							fake.Behaviour{Usage: &fake.Usage{Input: 200, Output: 40}})
						c := client.call(model, stream, t.Name(), "", observer) // another text each time: the key's own answers are stored
						c.Key = k.Key
						got := g.Do(t, c)
						var f struct{ Novelty float64 }
						said := client.text(t, got, stream)
						if err := json.Unmarshal([]byte(said), &f); err != nil || f.Novelty < 0 || f.Novelty > 1 {
							t.Errorf("the agent reads %q: %v", said, err)
						}
						want := shape.mode + "; valid=true; retries=1"
						mustSay(t, got, client, stream, want)
						again := string(lastOf(t, p).Body)
						if !strings.Contains(again, "corrected") || !strings.Contains(again, "novelty") {
							t.Errorf("the model is not told what is wrong: %s", again)
						}
						var r recordedSchema
						get(t, g, k.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
						cost := (300*int64(i+1) + 70*2*int64(i+1)) * 12 / 10 // and 20 percent
						if r.Schema != want || r.InputTokens != 300 || r.OutputTokens != 70 || r.Attempts != 2 || micro(t, r.Cost) != cost ||
							len(r.AttemptLog) != 2 || r.AttemptLog[0].Outcome != "schema" || r.AttemptLog[1].Outcome != "ok" {
							t.Errorf("the record is %+v, want a charge of %d", r, cost)
						}
						before := left
						if left = balanceOf(t, g, k.Key); left != before-cost {
							t.Errorf("%d is left of a balance of %d, want %d less", left, before, cost)
						}
						if !strings.Contains(got.Body, "300") {
							t.Errorf("the client does not read what it pays for: %s", got.Body)
						}
						if stream && client != "gemini" {
							if s := summaryOf(t, got); s.InputTokens != 300 || s.OutputTokens != 70 || s.Attempts != 2 || micro(t, s.Cost) != cost {
								t.Errorf("the last comment is %+v", s)
							}
						}
					})
				}
			}
		}
	}
	g.AssertSound(t)
}

// TestO05AnAnswerThatStaysWrong: the form's default, else an error that has what the model said.
func TestO05AnAnswerThatStaysWrong(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	p := fakes["openai"]
	for _, shape := range shapes {
		p.BehaveFor("openai-"+shape.mode, fake.Behaviour{Flaw: fake.WrongEnum, Usage: &fake.Usage{Input: 100, Output: 50}})
	}
	for _, shape := range shapes {
		for _, client := range shapers {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/stream=%v", shape.mode, client, stream), func(t *testing.T) {
					t.Parallel()
					model := "openai-" + shape.mode
					got := g.Do(t, client.call(model, stream, "hi", "", observer))
					if said := client.text(t, got, stream); said != `{"novelty":0,"relevance":0,"coherence":0,"verdict":"discard"}` {
						t.Errorf("the agent reads %q, want the default", said)
					}
					want := shape.mode + "; valid=false; retries=1; default=true"
					mustSay(t, got, client, stream, want)
					r := schemaRecord(t, g, got)
					if r.Schema != want || r.Attempts != 2 || r.InputTokens != 200 || !slices.Contains(r.Degraded, "schema_default") || r.Status != "ok" {
						t.Errorf("the record is %+v", r)
					}
					if !strings.Contains(got.Header.Get("X-Bardo-Degraded"), "schema_default") {
						t.Errorf("degraded: %q", got.Header.Get("X-Bardo-Degraded"))
					}

					k := prepaid(t, g)
					c := client.call(model, stream, "hi", "", "X-Bardo-Subsystem: hypnagogic_capture")
					c.Key = k.Key
					p.BehaveFor(model, fake.Behaviour{Flaw: fake.MissingField, Usage: &fake.Usage{Input: 100, Output: 50}})
					got = g.Do(t, c)
					code, d := client.fails(t, got)
					if got.Status != http.StatusBadGateway || code != "schema_validation_failed" || d.Schema != "CaptureResult" || d.Retries != 1 ||
						len(d.Issues) == 0 || !strings.HasPrefix(d.Raw, "{") && !strings.Contains(d.Raw, "{") {
						t.Errorf("%d %s %+v", got.Status, code, d)
					}
					var bill recordedSchema
					get(t, g, k.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &bill)
					if bill.Status != "invalid" || bill.HTTPStatus != http.StatusBadGateway || bill.InputTokens != 200 || bill.Attempts != 2 ||
						10_000_000-balanceOf(t, g, k.Key) != micro(t, bill.Cost) || micro(t, bill.Cost) == 0 {
						t.Errorf("the record is %+v", bill)
					}
				})
			}
		}
	}
	g.AssertSound(t)
}

// TestO05ADefaultAnswerIsLoggedAsAWarning: once, with who gave no better one, and with nothing of what it said.
func TestO05ADefaultAnswerIsLoggedAsAWarning(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	model := "openai-" + shapes[0].mode
	fakes["openai"].BehaveFor(model, fake.Behaviour{Flaw: fake.WrongEnum})
	for _, stream := range []bool{false, true} {
		got := g.Do(t, shaper("openai").call(model, stream, "a secret of ours", "", observer))
		id := got.Header.Get("X-Request-Id")
		var lines []string
		eventually(t, "the warning", func() bool {
			lines = slices.DeleteFunc(strings.Split(g.Log(), "\n"), func(l string) bool { return !strings.Contains(l, id) })
			return len(lines) > 0
		})
		if len(lines) != 1 || !strings.Contains(lines[0], `"level":"WARN"`) || !strings.Contains(lines[0], `"model":"`+model) || !strings.Contains(lines[0], `"retries":1`) {
			t.Errorf("stream=%v: the log says %q", stream, lines)
		}
	}
	if strings.Contains(g.Log(), "a secret of ours") {
		t.Error("the log has what was asked")
	}
}

// TestO05StrictSchemasAreNeitherRepairedNorRetried: the answer to one of P-18's schemas is valid as it comes, or an error.
func TestO05StrictSchemasAreNeitherRepairedNorRetried(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	p := fakes["openai"]
	for _, form := range []string{"CognitionPlan", "RiskRationale", "MemoryWriteIntent"} {
		for _, shape := range shapes {
			for _, flaw := range []fake.Flaw{fake.Flawless, fake.TrailingComma, fake.ExtraProse, fake.MissingField, fake.WrongEnum, fake.Truncated} {
				t.Run(fmt.Sprintf("%s/%s/%d", form, shape.mode, flaw), func(t *testing.T) {
					model := "openai-" + shape.mode
					p.QueueFor(model, fake.Behaviour{Flaw: flaw, Usage: &fake.Usage{Input: 10, Output: 5}})
					got := g.Do(t, shaper("openai").call(model, false, "hi", fmt.Sprintf(`"bardo":{"profile":{"response_schema":%q}}`, form)))
					if flaw == fake.Flawless || shape.mode == "tool" && flaw == fake.ExtraProse { // the words are beside the call
						shaper("openai").text(t, got, false)
						mustSay(t, got, "openai", false, shape.mode+"; valid=true; retries=0")
						return
					}
					code, d := shaper("openai").fails(t, got)
					if got.Status != http.StatusBadGateway || code != "structured_output_error" || d.Schema != form || d.Retries != 0 || len(d.Issues) == 0 {
						t.Errorf("%d %s %+v", got.Status, code, d)
					}
					if got.Header.Get("X-Bardo-Attempts") != "1" || got.Header.Get("X-Bardo-Schema") != shape.mode+"; valid=false; retries=0" {
						t.Errorf("headers %v", got.Header)
					}
				})
			}
		}
	}
}

// TestACallersOwnSchemaStreamsLive: what its provider enforces is seen as it comes, and checked at its end.
func TestACallersOwnSchemaStreamsLive(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	for name, p := range fakes {
		for _, shape := range shapes[:2] {
			for _, client := range shapers {
				if name == "gemini" && shape.mode == "tool" {
					continue // its calls come in one piece
				}
				t.Run(name+"/"+shape.mode+"/"+string(client), func(t *testing.T) {
					p.QueueFor(name+"-"+shape.mode, fake.Behaviour{JSON: `{"name":"Ada Lovelace, of London","age":36}`, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 2}})
					ctx := within(t, 20e9)
					res, err := g.Open(ctx, client.call(name+"-"+shape.mode, true, "hi", client.schema("person", plainSchema)))
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = res.Body.Close() }()
					if word := res.Header.Get("X-Bardo-Schema"); word != shape.mode {
						t.Errorf("X-Bardo-Schema at the head: %q", word)
					}
					r := gateway.NewReader(res.Body)
					for seen := ""; !strings.Contains(seen, "name"); {
						ev, err := r.Next()
						if err != nil {
							t.Fatalf("after %q: %v", seen, err)
						}
						seen += ev.Data
					}
				})
			}
		}
	}
}

// TestALiveAnswerThatIsWrong ends as its provider ended it, and the last comment says so.
func TestALiveAnswerThatIsWrong(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	for name, p := range fakes {
		for _, client := range []shaper{"openai", "anthropic", "responses"} {
			t.Run(name+"/"+string(client), func(t *testing.T) {
				p.QueueFor(name+"-enforced", fake.Behaviour{Flaw: fake.Truncated})
				got := g.Do(t, client.call(name+"-enforced", true, "hi", client.schema("person", plainSchema)))
				if client != "responses" {
					client.text(t, got, true)
				}
				if c := summaryOf(t, got); c.Schema != "enforced; valid=false; retries=0" || c.Attempts != 1 {
					t.Errorf("the last comment is %+v", c)
				}
			})
		}
	}
}
