package fake

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/e2e/fake/check"
	"bardo.money/gateway/internal/rawjson"
)

// OpenAI's endpoints for moderation, images and audio, and Together's for ranking, as their references have them
// (platform.openai.com/docs/api-reference, docs.together.ai/reference/rerank): what they ask for first, and what they answer.

// fields are the values of a request, from JSON or from a form; files are those of a form.
type fields struct {
	rawjson.Object

	values map[string]string
	files  map[string][]byte
}

func (f *fields) str(name string) string {
	if f.Object != nil {
		if s := f.Str(name); s != "" {
			return s
		}
		return strings.Trim(string(f.Object[name]), `"`)
	}
	return f.values[name]
}

// readFields reads the body of such a request.
func readFields(r *Request) (*fields, *refusal) {
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		o, err := rawjson.Parse(r.Body)
		if err != nil {
			return nil, check.Bad("", "", "We could not parse the JSON body of your request.")
		}
		return &fields{Object: o}, nil
	}
	f := &fields{values: map[string]string{}, files: map[string][]byte{}}
	form := multipart.NewReader(bytes.NewReader(r.Body), params["boundary"])
	for {
		p, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return f, nil
		}
		if err != nil {
			return nil, check.Bad("", "", "Could not parse multipart form")
		}
		content, err := io.ReadAll(p)
		switch {
		case err != nil:
			return nil, check.Bad("", "", "Could not parse multipart form")
		case p.FileName() != "":
			f.files[strings.TrimSuffix(p.FormName(), "[]")] = content
		default:
			f.values[p.FormName()] = string(content)
		}
	}
}

// modalities are the endpoints, each with what its requests need.
var modalities = map[string]struct {
	needs  []string
	answer func(f *fields) outcome
}{
	"/moderations":          {[]string{"input"}, moderation},
	"/rerank":               {[]string{"query", "documents"}, rerank},
	"/images/generations":   {[]string{"prompt"}, images},
	"/images/edits":         {[]string{"prompt", "image"}, images},
	"/images/variations":    {[]string{"image"}, images},
	"/audio/speech":         {[]string{"input", "voice"}, speech},
	"/audio/transcriptions": {[]string{"file"}, transcript},
	"/audio/translations":   {[]string{"file"}, transcript},
}

// routeModality answers such a request; ok is false for any other path.
func (s *Server) routeModality(path string, r *Request) (o outcome, ok bool) {
	m, ok := modalities[path]
	if !ok || s.cfg.Dialect != OpenAI || r.Method != http.MethodPost {
		return o, false
	}
	f, e := readFields(r)
	if e != nil {
		return outcome{refused: e}, true
	}
	if model := f.str("model"); len(s.cfg.Models) > 0 && !slices.Contains(s.cfg.Models, model) {
		return outcome{refused: &refusal{
			Status: http.StatusNotFound, Kind: "invalid_request_error", Code: "model_not_found",
			Message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", model),
		}}, true
	}
	for _, name := range append([]string{"model"}, m.needs...) {
		if f.str(name) == "" && len(f.files[name]) == 0 && len(f.Object[name]) == 0 {
			return outcome{refused: check.Bad(name, "missing_required_parameter", "Missing required parameter: '%s'.", name)}, true
		}
	}
	return m.answer(f), true
}

// with is a whole answer of some type.
func with(contentType, body string) outcome {
	return outcome{raw: &Raw{Status: http.StatusOK, Header: []string{"content-type: " + contentType}, Body: body}}
}

func moderation(f *fields) outcome {
	return with("application/json", fmt.Sprintf(`{
  "id": "modr-970d409ef3bef3b70c73d8232df86e7d",
  "model": %q,
  "results": [
    {
      "flagged": true,
      "categories": {"sexual": false, "violence": true},
      "category_scores": {"sexual": 2.34135824776394e-7, "violence": 0.8599265510337075},
      "category_applied_input_types": {"sexual": ["text"], "violence": ["text"]}
    }
  ]
}
`, f.str("model")))
}

func rerank(f *fields) outcome {
	n := len(f.Object["documents"]) / 4
	var first string
	if docs := []string{}; f.str("return_documents") == "true" && json.Unmarshal(f.Object["documents"], &docs) == nil && len(docs) > 0 {
		first = fmt.Sprintf(`,"document":{"text":%q}`, docs[0])
	}
	return with("application/json", fmt.Sprintf(`{"object":"rerank","id":"9dfa1a09-5ebc-4a40-970f-586cb8f4ae47","model":%q,`+
		`"results":[{"index":1,"relevance_score":0.98},{"index":0,"relevance_score":1.1e-05%s}],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":0,"total_tokens":%d}}`, f.str("model"), first, n, n))
}

// imageTokens are the output tokens of gpt-image-1 for a square image, by quality.
var imageTokens = map[string]int{"low": 272, "medium": 1056, "high": 4160}

// aPNG is the beginning of a picture.
var aPNG = base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\nfake"))

func images(f *fields) outcome {
	n := max(1, intOr(f.str("n"), 1))
	if !strings.HasPrefix(f.str("model"), "gpt-image") {
		data := strings.TrimSuffix(strings.Repeat(`{"url":"https://img.example/1.png","revised_prompt":"A cat"},`, n), ",")
		return with("application/json", fmt.Sprintf("{\n  \"created\": 1713833628,\n  \"data\": [%s]\n}\n", data))
	}
	output, input := n*imageTokens[or(f.str("quality"), "high")], 0
	if f.files["image"] != nil {
		input = 323
	}
	usage := fmt.Sprintf(`"usage":{"input_tokens":%d,"input_tokens_details":{"image_tokens":%d,"text_tokens":50},"output_tokens":%d,"total_tokens":%d}`, 50+input, input, output, 50+input+output)
	if f.str("stream") == "true" {
		return with("text/event-stream; charset=utf-8", fmt.Sprintf("event: image_generation.partial_image\ndata: {\"type\":\"image_generation.partial_image\",\"b64_json\":%q,\"partial_image_index\":0}\n\n"+
			"event: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"b64_json\":%q,%s}\n\n", aPNG, aPNG, usage))
	}
	data := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"b64_json":%q},`, aPNG), n), ",")
	return with("application/json", fmt.Sprintf(`{"created":1713833628,"background":"opaque","data":[%s],"output_format":"png","quality":"high","size":"1024x1024",%s}`, data, usage))
}

func intOr(s string, otherwise int) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return otherwise
}

// SpokenSeconds is how long the fake speaks, whatever the text.
const SpokenSeconds = 2

func speech(f *fields) outcome {
	if f.str("stream_format") == "sse" {
		return with("text/event-stream", "data: {\"type\":\"speech.audio.delta\",\"audio\":\"//uQ\"}\n\n"+
			"data: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":14,\"output_tokens\":101,\"total_tokens\":115}}\n\n")
	}
	switch or(f.str("response_format"), "mp3") {
	case "wav":
		return with("audio/wav", string(WAV(SpokenSeconds)))
	case "pcm":
		return with("audio/pcm", string(make([]byte, SpokenSeconds*48_000)))
	case "opus":
		return with("audio/opus", "OggS\x00\x02"+strings.Repeat("\x01\x02", 700))
	}
	return with("audio/mpeg", "\xff\xf3\xe4\xc4"+strings.Repeat("\x55", SpokenSeconds*20_000-4)) // 160 kbit/s, MPEG 2
}

// WAV is a recording of so many seconds of silence, with 16,000 samples a second.
func WAV(seconds int) []byte {
	const rate = 32_000
	n := uint32(seconds * rate)
	b := []byte("RIFF")
	b = binary.LittleEndian.AppendUint32(b, 36+n)
	b = append(b, "WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"...)
	b = binary.LittleEndian.AppendUint32(b, rate/2)
	b = binary.LittleEndian.AppendUint32(b, rate)
	b = append(b, "\x02\x00\x10\x00data"...)
	b = binary.LittleEndian.AppendUint32(b, n)
	return append(b, make([]byte, n)...)
}

func transcript(f *fields) outcome {
	seconds := (len(f.files["file"]) - 44) / 32_000
	usage := fmt.Sprintf(`"usage":{"type":"duration","seconds":%d}`, seconds)
	if strings.HasPrefix(f.str("model"), "gpt-4o") {
		audio := 10 * seconds
		usage = fmt.Sprintf(`"usage":{"type":"tokens","input_tokens":%d,"input_token_details":{"text_tokens":4,"audio_tokens":%d},"output_tokens":45,"total_tokens":%d}`, audio+4, audio, audio+49)
	}
	if f.str("stream") == "true" {
		return with("text/event-stream; charset=utf-8", "data: {\"type\":\"transcript.text.delta\",\"delta\":\"Hello.\"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"Hello.\","+usage+"}\n\n")
	}
	switch f.str("response_format") {
	case "text":
		return with("text/plain; charset=utf-8", "Hello.\n")
	case "srt":
		return with("text/plain; charset=utf-8", "1\n00:00:00,000 --> 00:00:01,000\nHello.\n\n")
	case "verbose_json":
		return with("application/json", fmt.Sprintf(`{"task":"transcribe","language":"english","duration":%d.25,"text":"Hello.","segments":[],%s}`, seconds, usage))
	}
	return with("application/json", fmt.Sprintf(`{"text":%q,%s}`, strings.TrimSpace("Hello. "+f.str("prompt")), usage)) // as if it was said
}
