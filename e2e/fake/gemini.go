package fake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"bardo.money/gateway/e2e/fake/check"
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
			Status: http.StatusForbidden, Kind: "PERMISSION_DENIED",
			Message: "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.",
		}
	case got != key:
		return &refusal{Status: http.StatusBadRequest, Kind: "INVALID_ARGUMENT", Code: "API_KEY_INVALID", Message: "API key not valid. Please pass a valid API key."}
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
	if e.Code != "" {
		details = fmt.Sprintf(",\n    \"details\": [\n      {\n        \"@type\": \"type.googleapis.com/google.rpc.ErrorInfo\",\n        \"reason\": %s,\n        \"domain\": \"googleapis.com\"\n      }\n    ]", quote(e.Code))
	}
	return []byte(fmt.Sprintf("{\n  \"error\": {\n    \"code\": %d,\n    \"message\": %s,\n    \"status\": %s%s\n  }\n}\n", e.Status, quote(e.Message), quote(e.Kind), details))
}

func (g gemini) errorFrame(e *refusal) frame {
	var line bytes.Buffer
	_ = json.Compact(&line, g.refusal(e, "")) // it is valid
	return frame{data: "data: " + line.String() + "\r\n\r\n"}
}

var geminiErrors = map[int]refusal{
	http.StatusBadRequest:          {Kind: "INVALID_ARGUMENT", Message: "Request contains an invalid argument."},
	http.StatusUnauthorized:        {Kind: "UNAUTHENTICATED", Message: "Request had invalid authentication credentials."},
	http.StatusPaymentRequired:     {Kind: "FAILED_PRECONDITION", Message: "Billing is not enabled for this project."},
	http.StatusForbidden:           {Kind: "PERMISSION_DENIED", Message: "The caller does not have permission"},
	http.StatusNotFound:            {Kind: "NOT_FOUND", Message: "Requested entity was not found."},
	http.StatusTooManyRequests:     {Kind: "RESOURCE_EXHAUSTED", Message: "Resource has been exhausted (e.g. check quota)."},
	http.StatusInternalServerError: {Kind: "INTERNAL", Message: "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"},
	http.StatusServiceUnavailable:  {Kind: "UNAVAILABLE", Message: "The model is overloaded. Please try again later."},
	http.StatusGatewayTimeout:      {Kind: "DEADLINE_EXCEEDED", Message: "Deadline expired before operation could complete."},
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

func readGemini(model string, r *Request, cfg *Config) (*asked, *refusal) {
	o, e := check.Gemini(model, r.Header, r.Body, cfg.checked())
	if e != nil {
		return nil, e
	}
	config := check.Camel(o.Object("generationConfig"))
	n, _ := config.Num("candidateCount")
	return &asked{
		model: model, choices: max(1, int(n)), inputTokens: max(1, len(r.Body)/4),
		showThoughts: check.Camel(config.Object("thinkingConfig")).Bool("includeThoughts"), form: check.GeminiForm(o),
	}, nil
}
