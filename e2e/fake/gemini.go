package fake

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/internal/rawjson"
)

// gemini is Google's generateContent.
type gemini struct{}

// geminiRoot is the version that the base URL ends with.
const geminiRoot = "/v1beta"

// geminiPath takes a path apart: /v1beta/models/gemini-3-pro:streamGenerateContent.
func geminiPath(path string) (model, method string) {
	rest := strings.TrimPrefix(underGemini(path), "/models/")
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return "", ""
	}
	return rest[:i], rest[i+1:]
}

// underGemini is what follows the version, of which there is a stable one, too.
func underGemini(path string) string {
	if rest, ok := strings.CutPrefix(path, geminiRoot); ok {
		return rest
	}
	return strings.TrimPrefix(path, "/v1")
}

func (gemini) authorize(h http.Header, key string) *refusal {
	switch got := h.Get("X-Goog-Api-Key"); {
	case got == "":
		return &refusal{
			status: http.StatusForbidden, kind: "PERMISSION_DENIED",
			message: "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.",
		}
	case got != key:
		return &refusal{status: http.StatusBadRequest, kind: "INVALID_ARGUMENT", code: "API_KEY_INVALID", message: "API key not valid. Please pass a valid API key."}
	}
	return nil
}

func (gemini) headers(h http.Header, _ string) {
	h.Set("Server", "scaffolding on HTTPServer2")
	h.Set("Vary", "Origin, X-Origin, Referer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Server-Timing", "gfet4t7; dur=1")
}

func (gemini) refusal(e *refusal, _ string) []byte {
	details := ""
	if e.code != "" {
		details = fmt.Sprintf(",\n    \"details\": [\n      {\n        \"@type\": \"type.googleapis.com/google.rpc.ErrorInfo\",\n        \"reason\": %s,\n        \"domain\": \"googleapis.com\"\n      }\n    ]", quote(e.code))
	}
	return []byte(fmt.Sprintf("{\n  \"error\": {\n    \"code\": %d,\n    \"message\": %s,\n    \"status\": %s%s\n  }\n}\n", e.status, quote(e.message), quote(e.kind), details))
}

func (g gemini) errorFrame(e *refusal) frame {
	var line bytes.Buffer
	_ = json.Compact(&line, g.refusal(e, "")) // it is valid
	return frame{data: "data: " + line.String() + "\r\n\r\n"}
}

var geminiErrors = map[int]refusal{
	http.StatusBadRequest:          {kind: "INVALID_ARGUMENT", message: "Request contains an invalid argument."},
	http.StatusUnauthorized:        {kind: "UNAUTHENTICATED", message: "Request had invalid authentication credentials."},
	http.StatusPaymentRequired:     {kind: "FAILED_PRECONDITION", message: "Billing is not enabled for this project."},
	http.StatusForbidden:           {kind: "PERMISSION_DENIED", message: "The caller does not have permission"},
	http.StatusNotFound:            {kind: "NOT_FOUND", message: "Requested entity was not found."},
	http.StatusTooManyRequests:     {kind: "RESOURCE_EXHAUSTED", message: "Resource has been exhausted (e.g. check quota)."},
	http.StatusInternalServerError: {kind: "INTERNAL", message: "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"},
	http.StatusServiceUnavailable:  {kind: "UNAVAILABLE", message: "The model is overloaded. Please try again later."},
	http.StatusGatewayTimeout:      {kind: "DEADLINE_EXCEEDED", message: "Deadline expired before operation could complete."},
}

func (gemini) errorFor(status int) *refusal { return refusalOf(geminiErrors, status) }

func (gemini) models(cfg *Config) []byte {
	rows := make([]string, 0, len(cfg.Models))
	for _, m := range cfg.Models {
		rows = append(rows, fmt.Sprintf(`{"name":%s,"version":"001","displayName":%s,"inputTokenLimit":1048576,"outputTokenLimit":65536,"supportedGenerationMethods":["generateContent","countTokens"]}`, quote("models/"+m), quote(m)))
	}
	return []byte(`{"models":[` + strings.Join(rows, ",") + `]}`)
}

// routeGemini is route for this dialect, whose paths name the model.
func (s *Server) routeGemini(r *Request) outcome {
	path := underGemini(r.Path)
	model, method := geminiPath(r.Path)
	switch {
	case path == "/models" && r.Method == http.MethodGet:
		return outcome{fixed: gemini{}.models(&s.cfg)}
	case path == "/cachedContents" || strings.HasPrefix(path, "/cachedContents/"):
		return s.routeCached(r, strings.TrimPrefix(path, "/"))
	case r.Method != http.MethodPost:
	case method == "generateContent", method == "streamGenerateContent":
		q, e := readGemini(model, r, &s.cfg)
		if q != nil {
			q.stream = method == "streamGenerateContent"
		}
		return outcome{asked: q, refused: e}
	case method == "countTokens":
		return outcome{fixed: []byte(fmt.Sprintf(`{"totalTokens":%d}`, max(1, len(r.Body)/4)))}
	}
	return outcome{refused: gemini{}.errorFor(http.StatusNotFound)}
}

func (gemini) body(q *asked, b *Behaviour, n int64) []byte {
	var parts []string
	for i := range b.Thoughts {
		if q.showThoughts {
			parts = append(parts, fmt.Sprintf(`{"text":%s,"thought":true}`, quote(b.Thoughts[i].Text)))
		}
	}
	if text := strings.Join(b.pieces(), ""); text != "" {
		sign := ""
		if len(b.ToolCalls) == 0 {
			sign = q.geminiSign(b)
		}
		parts = append(parts, fmt.Sprintf(`{"text":%s%s}`, quote(text), sign))
	}
	for i := range b.ToolCalls {
		parts = append(parts, b.geminiCall(q, n, i))
	}
	candidates := make([]string, q.choices)
	for i := range candidates {
		candidates[i] = fmt.Sprintf(`{"content":{"parts":[%s],"role":"model"},"finishReason":%s,"index":%d%s}`, strings.Join(parts, ","), quote(or(b.Stop, "STOP")), i, b.grounding())
	}
	body := fmt.Sprintf(`{"candidates":[%s]%s%s}`, strings.Join(candidates, ","), geminiTail(q, b, n, true), extra(b))
	var out bytes.Buffer
	if json.Indent(&out, []byte(body), "", "  ") != nil { // Extra may be broken on purpose
		return []byte(body)
	}
	return append(out.Bytes(), '\n')
}

// grounding is what stands beside an answer whose provider searched the web.
func (b *Behaviour) grounding() string {
	if b.searches() == 0 {
		return ""
	}
	queries := strings.TrimSuffix(strings.Repeat(`"bardo",`, b.searches()), ",")
	return `,"groundingMetadata":{"webSearchQueries":[` + queries + `],"groundingChunks":[{"web":{"uri":"https://a.example/","title":"a.example"}}]}`
}

// geminiTail is what stands beside the candidates.
func geminiTail(q *asked, b *Behaviour, n int64, last bool) string {
	usage := ""
	if b.Usage == nil || !b.Usage.Missing {
		u := b.count(q)
		if !last {
			u.Output, u.Reasoning = 0, 0
		}
		usage = `,"usageMetadata":` + geminiUsage(u)
	}
	return fmt.Sprintf(`%s,"modelVersion":%s,"responseId":%s`, usage, quote(or(b.AnswerModel, q.model)), quote(opaque(fmt.Sprint("response", n), 22)))
}

func geminiUsage(u Usage) string {
	in := u.Input + u.Cached + u.CacheWrite5m + u.CacheWrite1h
	s := fmt.Sprintf(`{"promptTokenCount":%d`, in)
	if said := u.Output - u.Reasoning; said > 0 {
		s += fmt.Sprintf(`,"candidatesTokenCount":%d`, said)
	}
	s += fmt.Sprintf(`,"totalTokenCount":%d`, in+u.Output)
	if u.Cached > 0 {
		s += fmt.Sprintf(`,"cachedContentTokenCount":%d`, u.Cached)
	}
	s += fmt.Sprintf(`,"promptTokensDetails":[{"modality":"TEXT","tokenCount":%d}]`, in)
	if u.Reasoning > 0 {
		s += fmt.Sprintf(`,"thoughtsTokenCount":%d`, u.Reasoning)
	}
	return s + "}"
}

// geminiCall is a call's part. The first of an answer that was thought about is signed.
func (b *Behaviour) geminiCall(q *asked, n int64, i int) string {
	c := &b.ToolCalls[i]
	sign := ""
	if i == 0 {
		sign = q.geminiSign(b)
	}
	return fmt.Sprintf(`{"functionCall":{"name":%s,"args":%s,"id":%s}%s}`, quote(c.Name), c.input(), quote(c.callID("", n, i)), sign)
}

// geminiSign is the signature of an answer that was thought about.
func (q *asked) geminiSign(b *Behaviour) string {
	if len(b.Thoughts) == 0 {
		return ""
	}
	return `,"thoughtSignature":` + quote(GeminiSignature(b.Thoughts[0].Text))
}

// geminiSigned begins what a signature holds.
const geminiSigned = "gemini made this of: "

// GeminiSignature is the signature that a fake of this dialect gives an answer that began with a thought, and takes back.
func GeminiSignature(thought string) string {
	return base64.StdEncoding.EncodeToString([]byte(geminiSigned + thought))
}

// isGeminiSignature reports whether a signature is one of these, in either alphabet, or the one that stands for none.
func isGeminiSignature(s string) bool {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "="))
	return s == "skip_thought_signature_validator" || err == nil && bytes.HasPrefix(b, []byte(geminiSigned))
}

// stream is a chunk for each piece; the last has the reason to stop. There is no terminator.
func (gemini) stream(q *asked, b *Behaviour, n int64) []frame {
	var fs []frame
	for i := range q.choices {
		add := func(part string) {
			fs = append(fs, frame{token: true, data: fmt.Sprintf(`data: {"candidates":[{"content":{"parts":[%s],"role":"model"},"index":%d}]%s%s}`+"\r\n\r\n",
				part, i, geminiTail(q, b, n, false), extra(b))})
		}
		for j := range b.Thoughts {
			if q.showThoughts {
				for _, p := range b.Thoughts[j].pieces() {
					add(fmt.Sprintf(`{"text":%s,"thought":true}`, quote(p)))
				}
			}
		}
		for _, p := range b.pieces() {
			add(fmt.Sprintf(`{"text":%s}`, quote(p)))
		}
		for j := range b.ToolCalls {
			add(b.geminiCall(q, n, j))
		}
		sign := ""
		if len(b.ToolCalls) == 0 {
			sign = q.geminiSign(b)
		}
		fs = append(fs, frame{data: fmt.Sprintf(`data: {"candidates":[{"content":{"parts":[{"text":""%s}],"role":"model"},"finishReason":%s,"index":%d%s}]%s%s}`+"\r\n\r\n",
			sign, quote(or(b.Stop, "STOP")), i, b.grounding(), geminiTail(q, b, n, true), extra(b))})
	}
	fs[len(fs)-1].last = true
	return fs
}

func (gemini) read(http.Header, []byte, *Config) (*asked, *refusal) { // its paths say what it is asked: see routeGemini
	return nil, gemini{}.errorFor(http.StatusNotFound)
}

var geminiMembers = []string{"contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig", "cachedContent", "labels", "serviceTier", "store"}

func geminiBad(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, kind: "INVALID_ARGUMENT", message: fmt.Sprintf(format, args...)}
}

func geminiUnknown(name, at string) *refusal {
	if at != "" {
		at = " at '" + at + "'"
	}
	return geminiBad("Invalid JSON payload received. Unknown name %q%s: Cannot find field.", name, at)
}

func readGemini(model string, r *Request, cfg *Config) (*asked, *refusal) {
	o, err := rawjson.Parse(r.Body)
	if err != nil || !isJSON(r.Header.Get("Content-Type")) {
		return nil, geminiBad("Invalid JSON payload received. Unexpected token.")
	}
	if len(cfg.Models) > 0 && !slices.Contains(cfg.Models, model) {
		return nil, &refusal{status: http.StatusNotFound, kind: "NOT_FOUND", message: fmt.Sprintf("models/%s is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.", model)}
	}
	o = camelMembers(o)
	if name := o.Unknown(append(slices.Clone(geminiMembers), cfg.Allow...)...); name != "" {
		return nil, geminiUnknown(name, "")
	}
	for _, check := range []func(string, object) *refusal{geminiConfig, geminiTools, geminiFormat, geminiContents} {
		if e := check(model, o); e != nil {
			return nil, e
		}
	}
	config := camelMembers(o.Object("generationConfig"))
	n, _ := config.Num("candidateCount")
	return &asked{
		model: model, choices: max(1, int(n)), inputTokens: max(1, len(r.Body)/4),
		showThoughts: camelMembers(config.Object("thinkingConfig")).Bool("includeThoughts"), form: geminiForm(o),
	}, nil
}

// camelMembers spells an object's members as the API does: it takes snake_case, too.
func camelMembers(o object) object {
	out := make(object, len(o))
	for k, v := range o {
		for i := strings.IndexByte(k, '_'); i > 0 && i+1 < len(k); i = strings.IndexByte(k, '_') {
			k = k[:i] + strings.ToUpper(k[i+1:i+2]) + k[i+2:]
		}
		out[k] = v
	}
	return out
}
