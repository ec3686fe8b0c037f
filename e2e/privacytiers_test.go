package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/gateway"
)

// tierLab is a gateway with Venice, whose model runs in an enclave too, and an ordinary provider. rules are the keys below inference.
func tierLab(t *testing.T, rules, venice string) (o gateway.Options, private, open *fake.Server, events string) {
	t.Helper()
	private = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "venice", Vendor: fake.Venice})
	open = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "open"})
	events = filepath.Join(t.TempDir(), "events.jsonl")
	o.Config = quick + tierConfig(rules, venice, events, private, open)
	return o, private, open, events
}

func tierConfig(rules, venice, events string, private, open *fake.Server) string {
	return fmt.Sprintf(`
telemetry: {events: "file:%s"}
inference: {%s}
providers:
  order: [open, venice]
  venice: {base_url: %q, api_key: %s, models: [{id: sealed, quality: high, price: {input: 1, output: 2, per_search: 0.01}, capabilities: [tools, vision, tee_attested, structured_outputs]}]%s}
  custom:
    - {id: open, endpoints: [%q], api_key: %s, models: [{id: plain, quality: high, price: {input: 1, output: 2}, capabilities: [tools, vision, structured_outputs]}]}
`, events, rules, private.URL, private.Key, venice, open.URL, open.Key)
}

const (
	asSchema = `"response_format":{"type":"json_schema","json_schema":{"name":"bid","strict":true,"schema":{"type":"object","properties":{"price":{"type":"string"}},"required":["price"],"additionalProperties":false}}}`
	aTool    = `"tools":[{"type":"function","function":{"name":"swap","parameters":{"type":"object","properties":{}}}}]`
)

// tierBody is a request with more members, and an image where wanted.
func tierBody(image bool, more ...string) string {
	content := `"What now?"`
	if image {
		content = `[{"type":"text","text":"What now?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]`
	}
	return `{"model":"auto","messages":[{"role":"user","content":` + content + `}]` + strings.Join(append([]string{""}, more...), ",") + `}`
}

// TestP04ARequestThatBreaksAConstraintOfItsTierIsRefusedByName: 400 before any provider is called, for the tier of the class and for one that a hint raised it to; an
// explanation says the same.
func TestP04ARequestThatBreaksAConstraintOfItsTierIsRefusedByName(t *testing.T) {
	t.Parallel()
	o, private, open, _ := tierLab(t, "", "")
	g := gateway.Run(t, o)
	for _, row := range []struct {
		about, body string
		header      []string
		constraint  string // "": it is served
		param       string
	}{
		{"a plan without a schema", tierBody(false), []string{"X-Bardo-Task-Class: plan"}, "structured_output_required", "response_format"},
		{"any JSON is no schema", tierBody(false, `"response_format":{"type":"json_object"}`), []string{"X-Bardo-Task-Class: trade"}, "structured_output_required", "response_format"},
		{"a trade with a schema", tierBody(false, asSchema), []string{"X-Bardo-Task-Class: trade"}, "", ""},
		{"a trade with tools", tierBody(false, asSchema, aTool), []string{"X-Bardo-Task-Class: trade"}, "", ""},
		{"a trade with an image", tierBody(true, asSchema), []string{"X-Bardo-Task-Class: trade"}, "file_upload_allowed", "messages"},
		{"a negotiation that searches", tierBody(false, asSchema), []string{"X-Bardo-Task-Class: negotiate", "X-Bardo-Web-Search: true"}, "web_search_allowed", "web_search"},
		{"a search in Venice's own words", tierBody(false, asSchema, `"venice_parameters":{"enable_web_search":"on"}`), []string{"X-Bardo-Task-Class: negotiate"}, "web_search_allowed", "web_search"},
		{"an incident is free", tierBody(true), []string{"X-Bardo-Task-Class: incident"}, "", ""},
		{"the Daimon raises it to an enclave", tierBody(false), []string{"X-Bardo-Task-Class: incident", "X-Bardo-Privacy-Tier: tee"}, "structured_output_required", "response_format"},
		{"no hint lowers a class", tierBody(false), []string{"X-Bardo-Task-Class: trade", "X-Bardo-Privacy-Tier: private"}, "structured_output_required", "response_format"},
		{"the tier private does not search", tierBody(false), []string{"X-Bardo-Privacy-Tier: private", "X-Bardo-Web-Search: true"}, "web_search_allowed", "web_search"},
		{"nothing asks for a tier", tierBody(true, aTool), []string{"X-Bardo-Web-Search: true"}, "", ""},
		{"a testament in an enclave is free text", tierBody(false), []string{"X-Bardo-Task-Class: testament", "X-Bardo-Tee: true"}, "", ""},
		{"the schema of the subsystem will do", tierBody(false), []string{"X-Bardo-Task-Class: trade", "X-Bardo-Subsystem: curator"}, "", ""},
	} {
		private.Forget()
		open.Forget()
		got, dry := g.Chat(t, row.body, row.header...), g.Chat(t, row.body, append(row.header, "X-Bardo-Route: explain")...)
		var said struct {
			Error   string
			Privacy *struct{ Violated string }
		}
		dry.JSON(t, &said)
		if row.constraint == "" {
			if got.Status != http.StatusOK || said.Error != "" || said.Privacy != nil && said.Privacy.Violated != "" {
				t.Errorf("%s: %d %s; explained: %s", row.about, got.Status, got.Body, dry.Body)
			}
			continue
		}
		var e struct {
			Error struct {
				Code, Message, Param string
				Details              struct{ Constraint string }
			}
		}
		got.JSON(t, &e)
		if got.Status != http.StatusBadRequest || e.Error.Code != "invalid_request" || e.Error.Details.Constraint != row.constraint || e.Error.Param != row.param || !strings.Contains(e.Error.Message, row.constraint) {
			t.Errorf("%s: %d %s", row.about, got.Status, got.Body)
		}
		var record struct {
			ErrorMessage string `json:"error_message"`
		}
		get(t, g, g.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &record)
		if record.ErrorMessage != e.Error.Message {
			t.Errorf("%s: the record says %q, the client was told %q", row.about, record.ErrorMessage, e.Error.Message)
		}
		if said.Privacy == nil || said.Privacy.Violated != row.constraint || !strings.Contains(said.Error, row.constraint) {
			t.Errorf("%s: explained: %s", row.about, dry.Body)
		}
		if text := g.Chat(t, row.body, append(row.header, "X-Bardo-Route: explain", "Accept: text/plain")...); !strings.HasSuffix(text.Body, "\nerror: "+said.Error+"\n") {
			t.Errorf("%s: explained as text: %s", row.about, text.Body)
		}
		if n := len(private.Generations()) + len(open.Generations()); n != 0 {
			t.Errorf("%s: %d providers were called", row.about, n)
		}
	}
}

// TestP04SealedTasksHoldNeitherToolsNorFiles: where nobody decrypts, nobody calls tools.
func TestP04SealedTasksHoldNeitherToolsNorFiles(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Vault: enclave.NewVault("a")})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "vault", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 2}", More: "capabilities: [tools, e2ee, structured_outputs, vision]"}}, More: "private: true, e2ee_keys: [" + enclave.VaultKey("a") + "]"},
	}})
	for _, row := range []struct{ body, constraint string }{
		{tierBody(false, asSchema, aTool), "tool_calling_allowed"},
		{tierBody(true, asSchema), "file_upload_allowed"},
		{tierBody(false), "structured_output_required"},
		{tierBody(false, asSchema), ""},
	} {
		got := g.Chat(t, row.body, "X-Bardo-Task-Class: sealed_auction")
		if row.constraint == "" && got.Status != http.StatusOK || row.constraint != "" && (got.Status != http.StatusBadRequest || !strings.Contains(got.Body, row.constraint)) {
			t.Errorf("%s: %d %s", row.constraint, got.Status, got.Body)
		}
	}
	if n := len(p.Generations()); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

// TestP09TheModeChangesWhileItRuns: which provider serves which class, and which tier is in force, by inference.provider_mode, changed by a reload.
func TestP09TheModeChangesWhileItRuns(t *testing.T) {
	t.Parallel()
	o, private, open, events := tierLab(t, "provider_mode: both", "")
	g := gateway.Run(t, o)
	// by is who serves a class of task, "400" where its constraint refuses it.
	by := func(class, subsystem, body string) string {
		got := g.Chat(t, body, "X-Bardo-Task-Class: "+class, "X-Bardo-Subsystem: "+subsystem)
		if got.Status != http.StatusOK {
			return fmt.Sprint(got.Status)
		}
		return got.Header.Get("X-Bardo-Provider")
	}
	free, strict := tierBody(false), tierBody(false, asSchema)
	for _, row := range []struct { // each differs from the one before in who serves the trade: so it is seen that it is in force
		mode                       string
		heartbeat, searches, trade string
		untyped                    string // a trade without a schema
		venice                     string // more of Venice's keys
	}{
		{mode: "provider_mode: both", heartbeat: "open", searches: "open", trade: "venice", untyped: "400"},
		{mode: "provider_mode: venice", heartbeat: "venice", searches: "400", trade: "venice", untyped: "400"},
		{mode: "provider_mode: both", venice: ", credit: 99", heartbeat: "open", searches: "open", trade: "open", untyped: "400"},
		{mode: "provider_mode: both", venice: ", credit: 99, min_credit: 50", heartbeat: "open", searches: "open", trade: "venice", untyped: "400"},
		{mode: "provider_mode: bardo", heartbeat: "open", searches: "open", trade: "open", untyped: "open"},
		{mode: "provider_mode: both, on_privacy_exhausted: fail", venice: ", credit: 99", heartbeat: "open", searches: "open", trade: "503", untyped: "503"},
	} {
		g.Configure(t, gateway.Options{Config: quick + tierConfig(row.mode, row.venice, events, private, open)})
		if err := g.Reload(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the trade goes to "+row.trade+" with "+row.mode+row.venice, func() bool { return by("trade", "heartbeat_t2", strict) == row.trade })
		eventually(t, "the heartbeat goes to "+row.heartbeat+" with "+row.mode, func() bool { return by("heartbeat", "heartbeat_t1", free) == row.heartbeat })
		search := g.Chat(t, free, "X-Bardo-Task-Class: heartbeat", "X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Web-Search: true")
		if got := search.Header.Get("X-Bardo-Provider"); got != row.searches && fmt.Sprint(search.Status) != row.searches {
			t.Errorf("%s: a heartbeat that searches: %d by %s: %s", row.mode, search.Status, got, search.Body)
		}
		if got := by("trade", "operator", free); got != row.untyped {
			t.Errorf("%s%s: a trade without a schema: %s, want %s", row.mode, row.venice, got, row.untyped)
		}
	}
}

// TestD12WithoutCreditATradeContinuesByName: what it lost is in the answer, the explanation and an event.
func TestD12WithoutCreditATradeContinuesByName(t *testing.T) {
	t.Parallel()
	o, private, _, events := tierLab(t, "provider_mode: both", ", credit: 99.5")
	g := gateway.Run(t, o)
	body := tierBody(false, asSchema)
	got := g.Chat(t, body, "X-Bardo-Task-Class: trade")
	if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "open" || !strings.Contains(got.Header.Get("X-Bardo-Degraded"), "privacy_tier") || len(private.Generations()) != 0 {
		t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
	}
	if dry := g.Chat(t, body, "X-Bardo-Task-Class: trade", "X-Bardo-Route: explain"); !strings.Contains(dry.Body, "its credit is below providers.venice.min_credit") {
		t.Errorf("explained: %s", dry.Body)
	}
	eventually(t, "the event", func() bool {
		b, err := os.ReadFile(events)
		return err == nil && strings.Contains(string(b), `"event":"venice:privacy_relaxed"`) && strings.Contains(string(b), `"task_class":"trade","privacy_tier":"tee","provider":"open"`)
	})
}

// TestTheRouteCommandShowsTheConstraintsOfATier.
func TestTheRouteCommandShowsTheConstraintsOfATier(t *testing.T) {
	t.Parallel()
	o, _, _, _ := tierLab(t, "", "")
	g := gateway.Run(t, o)
	for _, row := range [][]string{
		{"privacy: tier tee of task class trade; tools allowed; web search not allowed; uploads not allowed; the answer needs a schema", "--task-class", "trade", "--schema"},
		{"privacy: tier private of task class incident; no constraint in force", "--task-class", "incident"},
	} {
		if out := g.Bardo(t, append([]string{"route"}, row[1:]...)...); !strings.Contains(out, row[0]) {
			t.Errorf("%v: %s", row[1:], out)
		}
	}
}

// TestP04TheDefaultTierIsInForce: requests that ask for privacy and have no tier get the operator's, with its constraints and its enclave; others do not.
func TestP04TheDefaultTierIsInForce(t *testing.T) {
	t.Parallel()
	o, private, open, _ := tierLab(t, "on_privacy_exhausted: fail", ", default_privacy_tier: tee")
	g := gateway.Run(t, o)
	for _, row := range []struct {
		about, body string
		header      []string
		by, model   string // who serves it, and by which name of the model; "" where its constraint refuses it
	}{
		{"nothing asks for privacy", tierBody(false), nil, "open", "plain"},
		{"a private request with a schema", tierBody(false, asSchema), []string{"X-Bardo-Security-Class: private"}, "venice", "sealed-tee"},
		{"a private request without one", tierBody(false), []string{"X-Bardo-Security-Class: private"}, "", ""},
		{"a preference", tierBody(false), []string{"X-Bardo-Prefer: privacy"}, "", ""},
		{"a tier of its own", tierBody(false), []string{"X-Bardo-Privacy-Tier: private"}, "venice", "sealed"},
		{"a class of its own", tierBody(false), []string{"X-Bardo-Security-Class: private", "X-Bardo-Task-Class: incident"}, "venice", "sealed"},
		{"a dream", tierBody(false), []string{"X-Bardo-Subsystem: dream_rem"}, "venice", "sealed"},
	} {
		private.Forget()
		open.Forget()
		got := g.Chat(t, row.body, row.header...)
		if row.by == "" {
			if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "privacy tier tee (providers.venice.default_privacy_tier): structured_output_required") {
				t.Errorf("%s: %d %s", row.about, got.Status, got.Body)
			}
			if n := len(private.Generations()) + len(open.Generations()); n != 0 {
				t.Errorf("%s: %d providers were called", row.about, n)
			}
			continue
		}
		sent := map[string]*fake.Server{"venice": private, "open": open}[row.by].Generations()
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != row.by || len(sent) != 1 || sent[0].Model != row.model {
			t.Errorf("%s: %d by %s: %s; sent %+v", row.about, got.Status, got.Header.Get("X-Bardo-Provider"), got.Body, sent)
		}
	}
	dry := g.Chat(t, tierBody(false), "X-Bardo-Security-Class: private", "X-Bardo-Route: explain")
	if !strings.Contains(dry.Body, `"default": true`) || !strings.Contains(dry.Body, `"violated": "structured_output_required"`) {
		t.Errorf("explained: %s", dry.Body)
	}
	private.Forget()
	key := strings.Replace(tierBody(false, asSchema), "What now?", "private key: 4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", 1) // D-37: not even to an enclave
	if got := g.Chat(t, key, "X-Bardo-Security-Class: private"); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"secret_in_prompt"`) || len(private.Generations()) != 0 {
		t.Errorf("a private key: %d %s after %d calls", got.Status, got.Body, len(private.Generations()))
	}
}

// TestF05ATaskWhoseClassIsPrivateIsNotLogged where the operator's mode puts the tier of its class in force, and is where it does not.
func TestF05ATaskWhoseClassIsPrivateIsNotLogged(t *testing.T) {
	t.Parallel()
	for mode, logged := range map[string]string{"venice": "", "both": "on"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "private"})
			o := gateway.Options{
				Config:    quick + "inference: {provider_mode: " + mode + "}\ntelemetry: {prompts: {file: prompts.db, encryption_key: \"a key of thirty-two bytes, or so it is\"}}\n",
				Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", ""), More: "private: true"}},
			}
			g := gateway.Run(t, o)
			logPromptsOf(t, g, o)
			for _, class := range []string{"heartbeat", "incident", "judge"} {
				for _, stream := range []bool{false, true} {
					a := ask{dialect: fake.OpenAI, model: "m", stream: stream, say: "a task of a class"}
					if got := g.Do(t, a.call("X-Bardo-Task-Class: "+class)); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Prompt-Log") != logged {
						t.Errorf("%s, stream %v: %d, logged %q, want %q: %s", class, stream, got.Status, got.Header.Get("X-Bardo-Prompt-Log"), logged, got.Body)
					}
				}
			}
			if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", say: "said at the end"}.call()); got.Header.Get("X-Bardo-Prompt-Log") != "on" {
				t.Errorf("no task: %v", got.Header)
			}
			var kept string
			eventually(t, "the prompt log", func() bool { kept = g.Bardo(t, "prompts"); return strings.Contains(kept, "said at the end") })
			if has := strings.Contains(kept, "a task of a class"); has != (logged == "on") {
				t.Errorf("it has the tasks: %v", has)
			}
		})
	}
}
