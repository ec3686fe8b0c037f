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

// openSchema is one that no provider enforces as it stands: with an optional member, limits, and others besides.
const openSchema = `{"type":"object","properties":{"name":{"type":"string","minLength":1},"age":{"type":"integer","minimum":0}},"required":["name"]}`

// mysteries are what clients ask of a model that nobody described, in its server's own format: a schema, a tool and thinking.
var mysteries = map[shaper]string{
	"openai": `"response_format": {"type":"json_schema","json_schema":{"name":"person","schema":` + openSchema + `}} ,"reasoning_effort":"high",` + shaper("openai").lookup(),
	"anthropic": `"output_config": {"effort":"high","format":{"type":"json_schema","schema":` + plainSchema + `}} ,"thinking":{"type":"adaptive"},` +
		shaper("anthropic").lookup(),
	"responses": `"text": {"format":{"type":"json_schema","name":"person","schema":` + openSchema + `}} ,"reasoning":{"effort":"high"},` + shaper("responses").lookup(),
	"gemini": `"generationConfig": {"responseMimeType":"application/json","responseJsonSchema":` + openSchema + `,"thinkingConfig":{"thinkingBudget":2000}} ,` +
		shaper("gemini").lookup(),
}

// startUndescribed starts a gateway with a server of each format, and a model at each that nobody described.
func startUndescribed(t *testing.T) (*gateway.Gateway, map[shaper]*fake.Server) {
	t.Helper()
	fakes := map[shaper]*fake.Server{}
	o := gateway.Options{Config: quick}
	for _, client := range shapers {
		format, more := fake.Dialect(client), ""
		if client == "responses" {
			format, more = fake.OpenAI, "responses: true"
		}
		fakes[client] = fake.Start(t, fake.Config{Dialect: format})
		o.Providers = append(o.Providers, gateway.Provider{
			ID: "at-" + string(client), Fake: fakes[client], Format: string(format), More: more, Models: []gateway.Model{{ID: "mystery-" + string(client)}},
		})
	}
	return gateway.Run(t, o), fakes
}

// TestD86AnUnknownCapabilityPasses: what a client asks for in its server's own format, of a model that nobody described, goes as it came,
// and the answer is checked.
func TestD86AnUnknownCapabilityPasses(t *testing.T) {
	t.Parallel()
	g, fakes := startUndescribed(t)
	for _, client := range shapers {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", client, stream), func(t *testing.T) {
				model, more := "mystery-"+string(client), mysteries[client]
				if stream && client == "openai" {
					more = `"stream_options":{"include_usage":true},` + more
				}
				c := client.call(model, stream, t.Name(), more)
				fakes[client].Forget()
				got := g.Do(t, c)
				if asked := string(lastOf(t, fakes[client]).Body); asked != c.Body {
					t.Errorf("it is asked\n%s\nwant\n%s", asked, c.Body)
				}
				var p struct{ Name *string }
				if said := client.text(t, got, stream); json.Unmarshal([]byte(said), &p) != nil || p.Name == nil {
					t.Errorf("the client reads %q", said)
				}
				mustSay(t, got, client, stream, "enforced; valid=true; retries=0")
				if d := got.Header.Get("X-Bardo-Degraded"); d != "" {
					t.Errorf("degraded: %q", d)
				}
			})
		}
	}
	g.AssertSound(t)
}

// TestD86HowAnUnknownModelIsToldToThinkIsTheClientsWord: also where others of its provider are told in the prompt.
func TestD86HowAnUnknownModelIsToldToThinkIsTheClientsWord(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Vendor: fake.BlockRun})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "blockrun", Fake: p, Models: []gateway.Model{{ID: "mystery", Upstream: "acme/mystery"}, {ID: "known", Upstream: "acme/known", More: "capabilities: [tools]"}}},
	}})
	for model, want := range map[string]string{"mystery": `"reasoning_effort": "high"`, "known": ""} {
		got := g.Chat(t, fmt.Sprintf(`{"model":"blockrun/%s","reasoning_effort": "high","messages":[{"role":"user","content":"hi"}]}`, model))
		asked := string(lastOf(t, p).Body)
		if got.Status != http.StatusOK || strings.Contains(asked, "reasoning_effort") != (want != "") || !strings.Contains(asked, want) {
			t.Errorf("%s: %d, it is asked %s", model, got.Status, asked)
		}
		if named := got.Header.Get("X-Bardo-Degraded") == "reasoning_effort"; named != (want == "") {
			t.Errorf("%s: degraded: %q", model, got.Header.Get("X-Bardo-Degraded"))
		}
	}
}

// TestAnUnknownModelThatDoesNotFollowItsSchema is asked once more, and in words: it is known by then.
func TestAnUnknownModelThatDoesNotFollowItsSchema(t *testing.T) {
	t.Parallel()
	g, fakes := startUndescribed(t)
	for _, client := range shapers {
		for name, first := range map[string]fake.Behaviour{
			"by its answer": {Text: "Ann is 34."}, "by a refusal": {Status: http.StatusBadRequest, Message: "json_schema is not supported"},
		} {
			t.Run(string(client)+"/"+name, func(t *testing.T) {
				p := fakes[client]
				p.Forget()
				p.Queue(first)
				got := g.Do(t, client.call("mystery-"+string(client), false, t.Name(), client.schema("person", plainSchema)))
				var m struct{ Name *string }
				if said := client.text(t, got, false); json.Unmarshal([]byte(said), &m) != nil || m.Name == nil {
					t.Errorf("the client reads %q", said)
				}
				if asked := string(lastOf(t, p).Body); !strings.Contains(asked, "espond ONLY with valid JSON") || len(p.Generations()) != 2 {
					t.Errorf("after %d calls it is asked %s", len(p.Generations()), asked)
				}
				if d := got.Header.Get("X-Bardo-Degraded"); !strings.HasSuffix(d, ":json_schema->prompt") {
					t.Errorf("degraded: %q", d)
				}
			})
		}
	}
}

// TestAnUnknownModelIsAskedByTheSchemaOfOtherFormats: what is not known to be missing has no words stand in for it.
func TestAnUnknownModelIsAskedByTheSchemaOfOtherFormats(t *testing.T) {
	t.Parallel()
	g, fakes := startUndescribed(t)
	for at, member := range map[shaper]string{"openai": "response_format", "anthropic": "output_config", "gemini": "responseJsonSchema"} {
		for _, client := range shapers {
			for _, stream := range []bool{false, true} {
				got := g.Do(t, client.call("mystery-"+string(at), stream, fmt.Sprint("hi ", stream), client.schema("person", plainSchema)))
				var m struct{ Name *string }
				if said := client.text(t, got, stream); json.Unmarshal([]byte(said), &m) != nil || m.Name == nil {
					t.Errorf("%s at %s reads %q", client, at, said)
				}
				if asked := string(lastOf(t, fakes[at]).Body); !strings.Contains(asked, member) || strings.Contains(asked, "espond ONLY") {
					t.Errorf("%s at %s: it is asked %s", client, at, asked)
				}
			}
		}
	}
}

// TestASchemaThatIsNoObjectAtItsRoot: OpenAI takes only objects, so that a list or a word is put into one, and taken out of the answer.
func TestASchemaThatIsNoObjectAtItsRoot(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	const described = "max_output: 8000, capabilities: [tools, structured_outputs]"
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "chat", Fake: p, Models: []gateway.Model{{ID: "m", More: described}}},
		{ID: "kept", Fake: p, More: "responses: true", Models: []gateway.Model{{ID: "r", More: described}}},
	}})
	for name, row := range map[string]struct {
		schema string
		good   func(v any) bool
	}{
		"a list":        {`{"type":"array","items":{"type":"string","maxLength":40}}`, func(v any) bool { _, ok := v.([]any); return ok }},
		"a word":        {`{"type":"string","enum":["yes","no"]}`, func(v any) bool { return v == "yes" || v == "no" }},
		"a number":      {`{"type":"integer"}`, func(v any) bool { _, ok := v.(float64); return ok }},
		"one of two":    {`{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"number"}}]}`, func(v any) bool { return v != nil }},
		"by definition": {`{"$ref":"#/$defs/l","$defs":{"l":{"type":"array","items":{"$ref":"#/$defs/w"}},"w":{"type":"string"}}}`, func(v any) bool { _, ok := v.([]any); return ok }},
	} {
		for _, client := range shapers {
			for _, model := range []string{"m", "r"} {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/stream=%v", name, client, model, stream), func(t *testing.T) {
						more := client.schema("x", row.schema)
						if client == "responses" {
							more += `,"store":false`
						}
						got := g.Do(t, client.call(model, stream, t.Name(), more))
						var v any
						if said := client.text(t, got, stream); json.Unmarshal([]byte(said), &v) != nil || !row.good(v) {
							t.Errorf("the client reads %q", said)
						}
						mustSay(t, got, client, stream, "enforced; valid=true; retries=0")
						asked := strings.ReplaceAll(string(lastOf(t, p).Body), " ", "")
						if !strings.Contains(asked, `"schema":{"type":"object","properties":{"value":`) || strings.Contains(asked, "espondONLY") {
							t.Errorf("it is asked %s", asked)
						}
					})
				}
			}
		}
	}
	t.Run("an answer that is wrong inside", func(t *testing.T) {
		p.Forget()
		p.Queue(fake.Behaviour{JSON: `{"value":"maybe"}`}, fake.Behaviour{JSON: `{"value":"no"}`})
		got := g.Do(t, shaper("openai").call("m", false, t.Name(), shaper("openai").schema("x", `{"type":"string","enum":["yes","no"]}`)))
		if said := shaper("openai").text(t, got, false); said != `"no"` || len(p.Generations()) != 2 {
			t.Errorf("after %d calls the client reads %q", len(p.Generations()), said)
		}
	})
	g.AssertSound(t)
}

// TestGeminisEnumGivesTheBareWord: responseMimeType text/x.enum asks for a word of the schema's enum, without quotes, whoever answers.
func TestGeminisEnumGivesTheBareWord(t *testing.T) {
	t.Parallel()
	g, fakes := shaped(t, "")
	for _, schema := range []string{
		`"responseSchema":{"type":"STRING","format":"enum","enum":["left","right"]}`, `"responseJsonSchema":{"type":"string","enum":["left","right"]}`,
	} {
		more := `"generationConfig":{"responseMimeType":"text/x.enum",` + schema + `}`
		for name := range fakes {
			for _, shape := range shapes {
				for _, stream := range []bool{false, true} {
					got := g.Do(t, shaper("gemini").call(name+"-"+shape.mode, stream, "where to?", more))
					if said := shaper("gemini").text(t, got, stream); !slices.Contains([]string{"left", "right"}, said) {
						t.Errorf("%s-%s, stream=%v: the client reads %q", name, shape.mode, stream, said)
					}
					if stream {
						continue
					}
					if word := got.Header.Get("X-Bardo-Schema"); !strings.HasSuffix(word, "valid=true; retries=0") {
						t.Errorf("%s-%s: X-Bardo-Schema: %q", name, shape.mode, word)
					}
				}
			}
		}
	}
	fakes["gemini"].QueueFor("gemini-enforced", fake.Behaviour{Text: "up"}, fake.Behaviour{Text: "left"})
	got := g.Do(t, shaper("gemini").call("gemini-enforced", false, "and now?", `"generationConfig":{"responseMimeType":"text/x.enum","responseSchema":{"type":"STRING","enum":["left","right"]}}`))
	if said := shaper("gemini").text(t, got, false); said != "left" || got.Header.Get("X-Bardo-Schema") != "enforced; valid=true; retries=1" {
		t.Errorf("the client reads %q, %q", said, got.Header.Get("X-Bardo-Schema"))
	}
}

var strictnessCases = []struct {
	strict, schema, header string
	want                   string // the strictness that is asked for: "", false or true
	named                  bool
}{
	{strict: "", schema: openSchema},
	{strict: "", schema: plainSchema},
	{strict: `,"strict":false`, schema: openSchema, want: "false"},
	{strict: `,"strict":false`, schema: plainSchema, want: "false"},
	{strict: `,"strict":true`, schema: plainSchema, want: "true"},
	{strict: `,"strict":true`, schema: openSchema, want: "true", named: true},
	{strict: "", schema: openSchema, header: "X-Bardo-Require: structured_outputs", want: "true", named: true},
}

// TestAStrictSchemaIsTheClientsWord: one that is not said to be strict stays so, unless the gateway is asked to have it enforced, and one
// that was made strict is named.
func TestAStrictSchemaIsTheClientsWord(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	const described = "max_output: 8000, capabilities: [tools, structured_outputs]"
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "chat", Fake: p, Models: []gateway.Model{{ID: "m", More: described}}},
		{ID: "kept", Fake: p, More: "responses: true", Models: []gateway.Model{{ID: "r", More: described}}},
	}})
	format := map[shaper]string{
		"openai":    `"response_format":{"type":"json_schema","json_schema":{"name":"person"%s,"schema":%s}}`,
		"responses": `"store":false,"text":{"format":{"type":"json_schema","name":"person"%s,"schema":%s}}`,
	}
	for client, member := range map[shaper]string{"openai": "response_format", "responses": "text.format"} {
		for _, model := range []string{"m", "r"} {
			for _, stream := range []bool{false, true} {
				for _, row := range strictnessCases {
					t.Run(fmt.Sprintf("%s/%s/stream=%v/%s/%d/%s", client, model, stream, row.strict, len(row.schema), row.header), func(t *testing.T) {
						header := []string{"X-Bardo-Golem-Id: 7"}
						if row.header != "" {
							header = append(header, row.header)
						}
						got := g.Do(t, client.call(model, stream, t.Name(), fmt.Sprintf(format[client], row.strict, row.schema), header...))
						asked := string(lastOf(t, p).Body)
						if row.want == "" && client == "responses" && model == "m" {
							row.want = "false" // it is written anew
						}
						if is := strictnessIn(asked); is != row.want {
							t.Errorf("strict is %q, want %q: %s", is, row.want, asked)
						}
						if asIs := strings.Contains(asked, row.schema); asIs == row.named {
							t.Errorf("it is asked %s", asked)
						}
						want := ""
						if row.named {
							want = member + ":json_schema->strict"
						}
						if d := got.Header.Get("X-Bardo-Degraded"); d != want {
							t.Errorf("degraded: %q, want %q", d, want)
						}
						var m struct{ Name *string }
						if said := client.text(t, got, stream); json.Unmarshal([]byte(said), &m) != nil || m.Name == nil {
							t.Errorf("the client reads %q", said)
						}
					})
				}
			}
		}
	}
}

// strictnessIn is what a request says of its schema's strictness; "" for nothing.
func strictnessIn(body string) string {
	for _, is := range []string{"true", "false"} {
		if strings.Contains(body, `"strict":`+is) {
			return is
		}
	}
	return ""
}
