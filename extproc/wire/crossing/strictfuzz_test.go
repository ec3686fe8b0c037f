package crossing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// strictDialects are the clients' dialects, each with the encoding of its requests for a provider of its own format.
var strictDialects = []struct {
	dialect wire.Dialect
	encode  func(*chat.Request) ([]byte, []string, error)
}{
	{openai.Dialect{}, encodeOpenAI},
	{completions.Dialect{}, encodeOpenAI},
	{anthropic.Dialect{}, func(r *chat.Request) ([]byte, []string, error) {
		return anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: r.Model})
	}},
	{responses.Dialect{}, func(r *chat.Request) ([]byte, []string, error) {
		return responses.EncodeRequest(nil, r, responses.RequestOptions{Model: r.Model})
	}},
	{geminiPath, func(r *chat.Request) ([]byte, []string, error) {
		return gemini.EncodeRequest(nil, r, gemini.RequestOptions{})
	}},
}

func encodeOpenAI(r *chat.Request) ([]byte, []string, error) {
	return openai.EncodeRequest(nil, r, openai.RequestOptions{Model: r.Model})
}

// geminiPath is Google's dialect at a path, which contains the model and the method.
var geminiPath = gemini.Dialect{}.ForPath(gemini.Root+"/cheap:streamGenerateContent", "alt=sse")

// parsed holds the parts of a request that determine decisions, reservation and charge.
type parsed struct {
	Model          string
	Stream, Usage  bool // requested by the client
	Max, Choices   int
	Thinking, High bool
	Tools, IDs     []string // functions by their names, and content stored elsewhere
}

// parsedHere returns what the gateway parsed.
func parsedHere(r *chat.Request) parsed {
	d := parsed{
		Model: r.Model, Stream: r.Stream, Usage: r.StreamUsage, Max: r.MaxTokens, Choices: r.Choices, Thinking: r.Thinking, High: r.HighEffort,
	}
	for _, name := range []string{"previous_response_id", "conversation", "cachedContent", "cached_content"} {
		v := r.Doc.Get(name)
		id, ok := v.Str()
		if !ok {
			id, ok = v.Get("id").Str()
		}
		if ok {
			d.IDs = append(d.IDs, id)
		}
	}
	for _, n := range r.Needs {
		if strings.HasPrefix(n.Member, "input") {
			d.IDs = append(d.IDs, "item")
		}
	}
	if c, err := r.Conversation(); err == nil {
		for i := range c.Tools {
			if c.Tools[i].Raw == nil {
				d.Tools = append(d.Tools, c.Tools[i].Name)
			}
		}
	}
	return d
}

// reader is how another program parses JSON.
type reader struct {
	name string
	fold bool // names are case-insensitive
	last bool // of duplicate members the last one counts
}

var readers = []reader{{"the last, as encoding/json", false, true}, {"the first", false, false}, {"the last, in any case", true, true}, {"the first, in any case", true, false}}

// norm returns a name as a reader normalises it.
func (r reader) norm(d chat.Dialect, name string) string {
	if d == chat.Gemini {
		if r.fold {
			name = strings.ReplaceAll(name, "_", "")
		} else if bytes.IndexByte([]byte(name), '_') > 0 {
			name = camelOf(name)
		}
	}
	if !r.fold {
		return name
	}
	name, _, _ = strings.Cut(name, "\x00")
	return strings.ToLower(strings.NewReplacer("\u017f", "s", "\u212a", "k", "\u0131", "i", "\u0130", "i").Replace(name))
}

func camelOf(name string) string {
	words := strings.Split(name, "_")
	for i := 1; i < len(words); i++ {
		if words[i] != "" {
			words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
		}
	}
	return strings.Join(words, "")
}

// tree returns a value as a reader parses it: objects by their normalised names.
func (r reader) tree(d chat.Dialect, dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			value, err := r.tree(d, dec)
			if err != nil {
				return nil, err
			}
			name := r.norm(d, fmt.Sprint(key))
			if _, exists := object[name]; r.last || !exists {
				object[name] = value
			}
		}
		_, err = dec.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			e, err := r.tree(d, dec)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		_, err = dec.Token()
		return list, err
	}
	return token, nil
}

func (r reader) read(t *testing.T, d chat.Dialect, body []byte) view {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	top, err := r.tree(d, dec)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if d != chat.Gemini && r.last && !r.fold { // as encoding/json does
		var plain any
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		if err := dec.Decode(&plain); err != nil || fmt.Sprint(plain) != fmt.Sprint(top) {
			t.Fatalf("%s: %v, encoding/json reads %v, %v", body, top, plain, err)
		}
	}
	return view{r, d, top}
}

// view is a value as a reader parses it.
type view struct {
	by reader
	d  chat.Dialect
	v  any
}

func (w view) get(names ...string) view {
	for _, name := range names {
		object, _ := w.v.(map[string]any)
		w.v = object[w.by.norm(w.d, name)]
	}
	return w
}

func (w view) all() (out []view) {
	list, ok := w.v.([]any)
	if !ok && w.v != nil && w.d == chat.Gemini {
		list = []any{w.v} // a single value is a list of one
	}
	for _, e := range list {
		out = append(out, view{w.by, w.d, e})
	}
	return out
}

func (w view) str() string { s, _ := w.v.(string); return s }
func (w view) on() bool    { on, _ := w.v.(bool); return on }

func (w view) number() int {
	text, ok := w.v.(json.Number)
	if s, isText := w.v.(string); isText && w.d == chat.Gemini {
		text, ok = json.Number(s), true
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if !ok || err != nil {
		return 0
	}
	return int(min(max(f, -1), 1<<40))
}

// parse returns what a reader parses from a request.
func (w view) parse() parsed {
	d := parsed{Model: w.get("model").str(), Stream: w.get("stream").on(), Choices: 1}
	switch w.d { //nolint:exhaustive // no client of embeddings has a conversation
	case chat.OpenAI, chat.Completions:
		d.Usage = w.get("stream_options", "include_usage").on()
		d.Max = max(w.get("max_tokens").number(), w.get("max_completion_tokens").number())
		d.Choices = max(1, w.get("n").number())
		if w.d == chat.Completions {
			d.Choices = max(d.Choices, w.get("best_of").number())
		}
		for _, effort := range []view{w.get("reasoning_effort"), w.get("reasoning", "effort")} {
			d.effort(effort.str(), "none")
		}
		kind := w.get("thinking", "type").str()
		d.Thinking = d.Thinking || kind == "enabled" || kind == "adaptive" || w.get("reasoning", "enabled").on() || w.get("reasoning", "max_tokens").number() > 0
		d.functions(w, "function", "name")
	case chat.Anthropic:
		d.Max = w.get("max_tokens").number()
		kind := w.get("thinking", "type").str()
		d.effort(w.get("output_config", "effort").str(), "")
		d.Thinking = d.Thinking || kind == "enabled" || kind == "adaptive"
		d.High = d.High || w.get("thinking", "budget_tokens").number() >= 16384
		d.functions(w, "name")
	case chat.Responses:
		d.Max = w.get("max_output_tokens").number()
		d.effort(w.get("reasoning", "effort").str(), "none")
		d.functions(w, "name")
		d.ids(w.get("previous_response_id"), w.get("conversation"))
		if slices.ContainsFunc(w.get("input").all(), func(item view) bool { return item.get("type").str() == "item_reference" }) {
			d.IDs = append(d.IDs, "item")
		}
	case chat.Gemini:
		d.Model, d.Stream = "cheap", true // from the path
		config := w.get("generationConfig")
		d.Max, d.Choices = config.get("maxOutputTokens").number(), max(1, config.get("candidateCount").number())
		budget, level := config.get("thinkingConfig", "thinkingBudget").number(), config.get("thinkingConfig", "thinkingLevel").str()
		d.Thinking = config.get("thinkingConfig", "includeThoughts").on() || budget > 0 || level != ""
		d.High = budget >= 16384 || level == "high" || level == "xhigh"
		for _, tool := range w.get("tools").all() {
			for _, f := range tool.get("functionDeclarations").all() {
				d.Tools = append(d.Tools, f.get("name").str())
			}
		}
		d.ids(w.get("cachedContent"))
	}
	return d
}

// functions adds the tools of a request, except those that run at the provider.
func (d *parsed) functions(w view, path ...string) {
	for _, tool := range w.get("tools").all() {
		if kind, ok := tool.get("type").v.(string); !ok || kind == "function" || kind == "custom" && w.d == chat.Anthropic {
			d.Tools = append(d.Tools, tool.get(path...).str())
		}
	}
}

func (d *parsed) effort(effort, none string) {
	d.Thinking = d.Thinking || effort != "" && effort != none
	d.High = d.High || effort == "high" || effort == "xhigh" || effort == "max"
}

func (d *parsed) ids(of ...view) {
	for _, v := range of {
		if id := v.str(); id != "" {
			d.IDs = append(d.IDs, id)
		} else if id := v.get("id").str(); id != "" {
			d.IDs = append(d.IDs, id)
		}
	}
}

// checkStrict parses a body with a dialect's decoder and with other readers. It reports whether the decoder accepted the body.
func checkStrict(t *testing.T, which int, body []byte) bool {
	t.Helper()
	d := strictDialects[which]
	r, err := d.dialect.Decode(chat.Generate, nil, "", body)
	if err != nil {
		return false
	}
	own := parsedHere(r)
	_, unread := r.Conversation()
	name := d.dialect.Name()
	for _, by := range readers {
		theirs := by.read(t, name, body).parse()
		if unread != nil { // it is sent only to a provider of its own dialect
			theirs.Tools = own.Tools
		}
		if fmt.Sprint(theirs) != fmt.Sprint(own) {
			t.Fatalf("%s\nthe gateway reads %+v\na reader of %s reads %+v", body, own, by.name, theirs)
		}
	}
	if name == chat.Completions {
		checkPassed(t, body, r, own)
		if r.Turn == nil {
			return true
		}
		r = r.Turn
	}
	out, _, err := d.encode(r)
	if err != nil {
		return true
	}
	if err := jsonx.Valid(out); err != nil {
		t.Fatalf("%s became %s: %v", body, out, err)
	}
	if name == chat.Completions {
		name = chat.OpenAI // the dialect to which it was converted
	}
	for _, by := range readers {
		sent := by.read(t, name, out).parse()
		if name == chat.OpenAI && sent.Stream && !sent.Usage {
			t.Fatalf("%s was sent as\n%s\nwhich does not request usage for a reader of %s", body, out, by.name)
		}
		sent.Usage, sent.Tools = own.Usage, own.Tools
		if fmt.Sprint(sent) != fmt.Sprint(own) {
			t.Fatalf("%s was sent as\n%s\nwhich is %+v to the gateway, and %+v to a reader of %s", body, out, own, sent, by.name)
		}
	}
	return true
}

// checkPassed checks that readers of a prompt that is sent unchanged parse what the gateway parsed.
func checkPassed(t *testing.T, body []byte, r *chat.Request, own parsed) {
	t.Helper()
	out := completions.NewCall(nil, r, &policy.Resolution{Model: policy.ModelID(r.Model)}, provider.Endpoint{}).Body
	for _, by := range readers {
		sent := by.read(t, chat.Completions, out).parse()
		if sent.Stream && !sent.Usage {
			t.Fatalf("%s was sent as\n%s\nwhich does not request usage for a reader of %s", body, out, by.name)
		}
		sent.Usage, sent.Tools = own.Usage, own.Tools
		if fmt.Sprint(sent) != fmt.Sprint(own) {
			t.Fatalf("%s was sent as\n%s\nwhich is %+v to the gateway, and %+v to a reader of %s", body, out, own, sent, by.name)
		}
	}
}

// TestD85AllParsersReadTheSame runs the fuzz target on random requests, of which many are accepted and many refused.
func TestD85AllParsersReadTheSame(t *testing.T) {
	for which := range strictDialects {
		name := strictDialects[which].dialect.Name()
		t.Run(string(name), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(which), 85))
			accepted, duplicates, miscased := 0, 0, 0
			const drawn = 4000
			for range drawn {
				script := make([]byte, 160)
				for i := range script {
					script[i] = byte(r.Uint32())
				}
				g := docGenerator{script: script}
				body := []byte(g.request(name))
				if checkStrict(t, which, body) {
					accepted++
					continue
				}
				_, err := strictDialects[which].dialect.Decode(chat.Generate, nil, "", body)
				if strings.Contains(err.Error(), "is given twice") {
					duplicates++
				}
				if strings.Contains(err.Error(), "only by case") || strings.Contains(err.Error(), "case-sensitive") {
					miscased++
				}
			}
			if accepted < drawn/20 || duplicates < drawn/50 || miscased < drawn/50 {
				t.Errorf("of %d requests, %d were accepted, %d refused for a duplicate name and %d for its case", drawn, accepted, duplicates, miscased)
			}
		})
	}
}

// FuzzD85AllParsersReadTheSame: whatever a body contains, if a decoder accepts it, every reader finds the same model, stream, usage,
// limits, effort, tools and ids in it as the gateway: those that use the last of duplicate members, like encoding/json, or the first, and
// those that ignore case. The request to a provider contains the same, and requests usage. A script generates a body; one that starts with
// a brace is the body itself.
func FuzzD85AllParsersReadTheSame(f *testing.F) {
	for which := range strictDialects {
		f.Add(byte(which), []byte("plain"))
		f.Add(byte(which), bytes.Repeat([]byte{69, 2, 5}, 60))
		g := docGenerator{}
		f.Add(byte(which), []byte(g.request(strictDialects[which].dialect.Name())))
	}
	f.Add(byte(0), []byte(`{"model":"m","stream":true,"stream_options":{"include_usage":true,"include_usage":false},"messages":[{"role":"user","content":"hi"}]}`))
	f.Fuzz(func(t *testing.T, which byte, script []byte) {
		at := int(which) % len(strictDialects)
		body := script
		if !bytes.HasPrefix(script, []byte("{")) {
			g := docGenerator{script: script}
			body = []byte(g.request(strictDialects[at].dialect.Name()))
		}
		checkStrict(t, at, body)
	})
}
