package providertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// sampleContent is the content of the sample requests, in every dialect.
const sampleContent = `system "Be brief."
user text "What is this?" image image/png iVBORw0KGgo=
assistant text "Let me look." call call_1 weather {"big":12345678901234567890,"city":"Köln"}
tool result call_1 "rain"
user text "And now?"
tool weather "Tells it" {"properties":{"city":{"type":"string"}},"type":"object"}
choice 2, at most 200 tokens, temperature 0.30, stop [END]
`

// testRequests checks that the provider reads the client's content in its own format, with the same bytes every time.
func (p *pairing) testRequests(t *testing.T) {
	for _, stream := range []bool{false, true} {
		req := p.request(t, stream)
		first := p.encode(t, req, resolution())
		p.checkCall(t, first)
		read, err := at(p.format, first.Path).Decode(chat.Generate, nil, "", first.Body)
		if err != nil {
			t.Fatalf("the provider cannot read %s: %v", first.Body, err)
		}
		if got := describe(t, read); got != sampleContent {
			t.Errorf("the provider reads\n%s\nwant\n%s", got, sampleContent)
		}
		if read.Stream != stream || read.Model != upstreamModel || read.Doc.Find("bardo") >= 0 {
			t.Errorf("the provider reads %s", first.Body)
		}
		p.checkRepeats(t, stream, first.Body)
	}
}

func (p *pairing) checkCall(t *testing.T, call *provider.Call) {
	t.Helper()
	if !strings.HasPrefix(call.Path, basePath+"/") && !strings.HasPrefix(call.Path, geminiPath+"/") {
		t.Errorf("the path is %s", call.Path)
	}
	for _, f := range call.Header {
		if f.Name != strings.ToLower(f.Name) || f.Name == "" {
			t.Errorf("the header %q is not in lower case", f.Name)
		}
	}
	if bytes.Contains(call.Body, []byte(sampleKey)) || strings.Contains(call.Path, sampleKey) {
		t.Error("the key is in the body or the path")
	}
}

// checkRepeats checks K-25: an attempt at another provider in between makes no difference.
func (p *pairing) checkRepeats(t *testing.T, stream bool, want []byte) {
	t.Helper()
	req := p.request(t, stream)
	for range 100 {
		other := resolution()
		other.Upstream = "another-model"
		p.encode(t, req, other)
		if got := p.encode(t, req, resolution()); !bytes.Equal(got.Body, want) {
			t.Fatalf("K-25: got  %s\nwant %s", got.Body, want)
		}
	}
}

// testCredentials checks that the key is in one header, or in none for a provider that needs no key, and that without a key there is no
// such header.
func (p *pairing) testCredentials(t *testing.T) {
	count := func(at provider.Endpoint) (keyed int) {
		call, err := p.adapter.Encode(nil, p.request(t, false), resolution(), at)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range call.Header {
			if !slices.Contains(provider.RemovedHeaders, f.Name) {
				t.Errorf("the header %s is not in RemovedHeaders: it would reach the provider of the next attempt", f.Name)
			}
			isCredential := slices.Contains(header.ProviderKeys(), f.Name)
			if strings.Contains(f.Value, sampleKey) != isCredential {
				t.Errorf("the header %s is %q", f.Name, f.Value)
			}
			if isCredential {
				keyed++
			}
		}
		return keyed
	}
	if n := count(p.at); n > 1 {
		t.Errorf("the key is in %d headers", n)
	}
	keyless := p.at
	keyless.Key = provider.Secret{}
	if n := count(keyless); n > 0 {
		t.Errorf("without a key there are %d credentials", n)
	}
}

// describe returns the content of a request.
func describe(t *testing.T, r *chat.Request) string {
	t.Helper()
	c, err := r.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, p := range c.System {
		fmt.Fprintf(&b, "system %q\n", p.Text)
	}
	for _, m := range c.Messages {
		b.WriteString(string(m.Role))
		for i := range m.Parts {
			b.WriteString(describePart(t, &m.Parts[i]))
		}
		b.WriteString("\n")
	}
	for _, f := range c.Tools {
		fmt.Fprintf(&b, "tool %s %q %s\n", f.Name, f.Description, canonical(t, f.Schema))
	}
	fmt.Fprintf(&b, "choice %d, at most %d tokens, temperature %s, stop %v\n",
		c.ToolChoice.Mode, r.MaxTokens, c.Params.Temperature, c.Params.Stop)
	return b.String()
}

func describePart(t *testing.T, p *chat.Part) string {
	t.Helper()
	switch p.Kind {
	case chat.PartText:
		return fmt.Sprintf(" text %q", p.Text)
	case chat.PartImage:
		return " image " + p.Media + " " + p.Data
	case chat.PartToolUse:
		return " call " + p.Tool.ID + " " + p.Tool.Name + " " + canonical(t, jsonx.Raw(p.Tool.Args))
	case chat.PartToolResult:
		var text strings.Builder
		for _, inner := range p.Parts {
			text.WriteString(inner.Text)
		}
		return fmt.Sprintf(" result %s %q", p.Tool.ID, text.String())
	case chat.PartDocument, chat.PartAudio, chat.PartVideo, chat.PartFile, chat.PartThinking, chat.PartRedacted, chat.PartRefusal, chat.PartOther:
	}
	return fmt.Sprintf(" part of kind %d", p.Kind)
}

// canonical formats JSON with sorted keys; numbers keep their text.
func canonical(t *testing.T, raw jsonx.Raw) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
