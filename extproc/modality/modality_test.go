package modality_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/modality"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
)

// at returns a model of the catalog at a provider.
func at(p policy.ProviderID, id string) *policy.Resolution {
	m := catalog.New(catalogtest.Embedded()).Unlisted(p, id)
	return &policy.Resolution{Provider: p, Model: m.ID, Prices: m.Prices, Context: m.Context, MaxOutput: m.MaxOutput}
}

func parse(t *testing.T, path, body string) *modality.Request {
	t.Helper()
	r, err := modality.Parse(modality.Find(path), "application/json", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// upload returns a form with a file and a model.
func upload(t *testing.T, model string, file []byte) *modality.Request {
	t.Helper()
	body := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model +
		"\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + string(file) + "\r\n--b--\r\n"
	r, err := modality.Parse(modality.Find("/v1/audio/transcriptions"), "multipart/form-data; boundary=b", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCosts: the costs of answers, by their reports or by their requests.
func TestCosts(t *testing.T) {
	for _, row := range []struct {
		name, path, body, answer string
		to                       *policy.Resolution
		want                     policy.Pico
		estimated                bool
	}{
		{"images that came", "/v1/images/generations", `{"prompt":"x","n":4}`, `{"data":[{},{}]}`, at("openai", "dall-e-3"), 80_000_000_000, false},
		{"the dearest where it is left open", "/v1/images/generations", `{"prompt":"x","quality":"auto"}`, `{"data":[{}]}`, at("openai", "dall-e-3"), 120_000_000_000, false},
		{"one price for all", "/v1/images/generations", `{"prompt":"x","size":"7x7"}`, `{"data":[{}]}`, at("xai", "grok-2-image"), 70_000_000_000, false},
		{"pixels", "/v1/images/generations", `{"prompt":"x","width":1000,"height":500}`, `{"data":[{}]}`, at("together", "flux.1-schnell"), 1_350_000_000, false},
		{"fewer steps cost the same", "/v1/images/generations", `{"prompt":"x","size":"1000x1000","steps":1}`, `{"data":[{}]}`, at("together", "flux.1-schnell"), 2_700_000_000, false},
		{"more steps cost more", "/v1/images/generations", `{"prompt":"x","size":"1000x1000","steps":6}`, `{"data":[{}]}`, at("together", "flux.1-schnell"), 4_050_000_000, false},
		{"an image without a report", "/v1/images/generations", `{"prompt":"x"}`, `{"data":[{}]}`, at("openai", "gpt-image-1"), 3*5_000_000 + 6540*40_000_000, true},
		{"characters", "/v1/audio/speech", `{"model":"m","input":"äöü"}`, ``, at("openai", "tts-1"), 45_000_000, false},
		{"ranking without a report", "/v1/rerank", `{"model":"m","query":"aaaa","documents":["b"]}`, `{"results":[]}`, at("together", "llama-rank-v1"), 400_000, true},
		{"a report below zero", "/v1/rerank", `{"model":"m","query":"aaaa","documents":["b"]}`, `{"usage":{"total_tokens":-5}}`, at("together", "llama-rank-v1"), 0, false},
	} {
		r := parse(t, row.path, row.body)
		u := r.Read(row.to, []byte(row.answer))
		cost, err := r.Cost(row.to, &u)
		if err != nil || cost != row.want || u.Estimated != row.estimated {
			t.Errorf("%s: %d, %v, estimated %v; %+v", row.name, cost, err, u.Estimated, u)
		}
		most := r.Max(row.to)
		if reserved, err := r.Cost(row.to, &most); err != nil || reserved < cost {
			t.Errorf("%s: %d reserved for %d, %v", row.name, reserved, cost, err)
		}
	}
}

// TestWhatHasNoPriceIsNamed.
func TestWhatHasNoPriceIsNamed(t *testing.T) {
	for name, row := range map[string]struct {
		path, body string
		to         *policy.Resolution
	}{
		"a size":                      {"/v1/images/generations", `{"prompt":"x","size":"9x9"}`, at("openai", "dall-e-3")},
		"a quality":                   {"/v1/images/generations", `{"prompt":"x","quality":"ultra"}`, at("openai", "dall-e-3")},
		"a size that is left open":    {"/v1/images/generations", `{"prompt":"x","size":"auto"}`, at("together", "flux.1-schnell")},
		"a model":                     {"/v1/images/generations", `{"prompt":"x"}`, at("openai", "nobody")},
		"another provider":            {"/v1/audio/speech", `{"model":"m","input":"x"}`, at("azure", "tts-1")},
		"seconds where images are":    {"/v1/images/generations", `{"prompt":"x"}`, at("openai", "whisper-1")},
		"characters where a model is": {"/v1/rerank", `{"model":"m","query":"x"}`, at("openai", "tts-1")},
	} {
		r := parse(t, row.path, row.body)
		most := r.Max(row.to)
		_, err := r.Cost(row.to, &most)
		if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.UnpricedParameter {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// flac, ogg and wav return the first bytes of files with a duration in seconds.
func flac(seconds uint64) []byte {
	b := append([]byte("fLaC\x00\x00\x00\x22"), make([]byte, 10)...)
	return append(binary.BigEndian.AppendUint64(b, 44_100<<44|seconds*44_100), make([]byte, 16)...)
}

func ogg(seconds uint64) []byte {
	b := append([]byte("OggS\x00\x02"), make([]byte, 60)...)
	return append(binary.LittleEndian.AppendUint64(append(b, "OggS\x00\x04"...), seconds*48_000), make([]byte, 12)...)
}

func wav(seconds, claimed uint32) []byte {
	b := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"), 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, 1000)
	b = append(b, "\x02\x00\x10\x00data"...)
	return append(binary.LittleEndian.AppendUint32(b, claimed*1000), make([]byte, seconds*1000)...)
}

// TestLengthsOfAudio: files state their duration; an unknown format is reserved at its maximum duration.
func TestLengthsOfAudio(t *testing.T) {
	to := at("openai", "whisper-1") // 100,000,000 a second
	for name, row := range map[string]struct {
		file    []byte
		seconds float64
		exact   bool
	}{
		"FLAC":                           {flac(30), 30, true},
		"Ogg":                            {ogg(20), 20, true},
		"WAV":                            {wav(3, 3), 3, true},
		"WAV that claims to be longer":   {wav(3, 4_000_000), 3, true},
		"WAV that holds something else":  {wav(3, 1), 1, true},
		"an unknown format":              {[]byte(strings.Repeat("x", 7_500)), 10, false},
		"a FLAC file that says nothing":  {flac(0), float64(len(flac(0))) / 750, false},
		"a prefix that is cut":           {[]byte("RIFF"), 4. / 750, false},
		"an Ogg file with a wild length": {ogg(1 << 40), float64(len(ogg(0))) / 750, false},
	} {
		r := upload(t, "whisper-1", row.file)
		u := r.Read(to, []byte("text"))
		cost, err := r.Cost(to, &u)
		if want := policy.Pico(int64(row.seconds*1000)) * 100_000; err != nil || cost != want || u.Estimated == row.exact {
			t.Errorf("%s: %d, want %d; estimated %v, %v", name, cost, want, u.Estimated, err)
		}
	}
}

func TestRequestsThatCannotBeRead(t *testing.T) {
	for name, row := range map[string]struct{ path, kind, body, want string }{
		"no JSON":              {"/v1/moderations", "application/json", `{`, "JSON"},
		"another type":         {"/v1/moderations", "text/plain", `{}`, "content-type"},
		"a model of no text":   {"/v1/moderations", "", `{"model":["a"]}`, "must be a string"},
		"no model":             {"/v1/rerank", "", `{}`, "model is missing"},
		"too many images":      {"/v1/images/generations", "", `{"n":1001}`, "n must be"},
		"half an image":        {"/v1/images/generations", "", `{"n":0.5}`, "n must be"},
		"a large image":        {"/v1/images/generations", "", `{"size":"99999x99999"}`, "too large"},
		"a long size":          {"/v1/images/generations", "", `{"size":"` + strings.Repeat("x", 65) + `"}`, "too long"},
		"JSON for a form":      {"/v1/audio/transcriptions", "application/json", `{}`, "multipart"},
		"a form without file":  {"/v1/audio/transcriptions", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--", "file is missing"},
		"a form with two of n": {"/v1/images/variations", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; name=\"N\"\r\n\r\n9\r\n--b--", "twice"},
	} {
		_, err := modality.Parse(modality.Find(row.path), row.kind, []byte(row.body))
		if f, ok := errors.AsType[*fault.Fault](err); !ok || !strings.Contains(f.Public, row.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
