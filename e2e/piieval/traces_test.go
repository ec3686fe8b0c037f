package piieval_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	layer "bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
)

// injected are values that are put into the recorded conversations, with words around them where they need some.
var injected = []struct{ text, value string }{
	{"jane.doe@mail.example.co.uk", "jane.doe@mail.example.co.uk"},
	{"+49 30 901820", "+49 30 901820"},
	{"4111 1111 1111 1111", "4111 1111 1111 1111"},
	{"DE89 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0130 00"},
	{"SSN 536-90-4399", "536-90-4399"},
	{"203.0.113.7", "203.0.113.7"},
	{"Tel. 0171 2345678", "0171 2345678"},
	{"glpat-Zx8Kq2mN5vB7cL1pR4tY", "glpat-Zx8Kq2mN5vB7cL1pR4tY"},
	{"https://bob:s3cr3t-pw@x.example/", "s3cr3t-pw"},
	{"123 N Main St, Springfield, IL 62704", "123 N Main St"},
}

// TestNoMaskedValueOfTheTracesIsLeft: a value is put into every text of every recorded request. None is left in what the provider would get.
func TestNoMaskedValueOfTheTracesIsLeft(t *testing.T) {
	files, err := filepath.Glob("../traces/*.jsonl")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	l := layer.Layer{Mode: layer.Mask, Finder: pii.NewMemo(pii.NewScanner(pii.Detectors{Types: pii.Default})), Secret: func() []byte { return []byte("s") }}
	masked := 0
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defined := map[string]map[string]json.RawMessage{}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for n := 0; lines.Scan() && n < 120; n++ {
			masked += checkTrace(t, l, defined, lines.Bytes())
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	if masked < 1000 {
		t.Errorf("only %d values were put into the traces", masked)
	}
}

func checkTrace(t *testing.T, l layer.Layer, defined map[string]map[string]json.RawMessage, line []byte) (n int) {
	t.Helper()
	var rec struct {
		Define, Use, Path string
		Body              map[string]json.RawMessage
		Messages          json.RawMessage
	}
	if err := json.Unmarshal(line, &rec); err != nil {
		t.Fatal(err)
	}
	if rec.Define != "" {
		defined[rec.Define] = rec.Body
		return 0
	}
	whole := map[string]json.RawMessage{"messages": rec.Messages}
	maps.Copy(whole, defined[rec.Use])
	body, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	var d wire.Dialect = openai.Dialect{}
	if strings.Contains(rec.Path, "/v1/messages") {
		d = anthropic.Dialect{}
	}
	r, err := d.Decode(chat.Generate, header.List{}, "", body)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := transcript.Of(r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.Texts {
		if k := tr.Texts[i].Kind; k == transcript.Definition || k == transcript.Other { // enumerations and types there must stay valid
			continue
		}
		tr.Edit(i, func(s string) (string, bool) {
			n++
			return s + " " + injected[n%len(injected)].text, true
		})
	}
	if r, err = tr.Request(); err != nil {
		t.Fatal(err)
	}
	x := &pipeline.Exchange{Request: r}
	if err := pipeline.New(l).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	sent := string(x.Request.Doc.Bytes)
	for _, v := range injected {
		if strings.Contains(sent, v.value) {
			at := strings.Index(sent, v.value)
			t.Fatalf("%s is sent: %s", v.value, sent[max(0, at-80):min(len(sent), at+80)])
		}
	}
	return n
}
