package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

// meanings are questions, those of a row with one meaning, which look like those of other rows.
func (v *dialog) meanings() [][]string {
	one, other := v.planted(), v.planted()
	return [][]string{
		{"What is the population of Oslo?", "tell me what the population of Oslo is, please", "What's the population of Oslo?"},
		{"What is the population of Lima?", "tell me what the population of Lima is, please"},
		{"How tall is Mount Everest?", "What is the height of Mount Everest?"},
		{"How tall is Mount Fuji?", "What is the height of Mount Fuji?"},
		{"what is 2+2"},
		{"what is 2+3"},
		{"Should I sell ETH now?"},
		{"Should I not sell ETH now?"},
		{"Should I buy ETH now?"},
		{"Swap ETH for USDC"},
		{"Swap USDC for ETH"},
		{"Who is " + one + " ?"},
		{"Who is " + other + " ?"},
	}
}

// askMeanings asks questions of few meanings in a few surroundings: none is answered with what was said to another meaning, key, system prompt, or with other tools.
func (p *dialogPair) askMeanings(t *testing.T, r *rand.Rand) {
	t.Helper()
	if p.extras.semantic != "on" {
		return
	}
	v := p.newDialog(r)
	v.thinks, v.plants, v.header, v.model = false, true, []string{"x-bardo-pipeline: standard"}, pick(r, "gpt-4.1", "claude-sonnet-4-5") // the others think unasked
	rows := v.meanings()
	tools, stored := v.newTools(2), [2]map[string][]string{{}, {}}
	for _, s := range p.extras.services[:] {
		s.search.answers(`{"results":[]}`)
	}
	v.format, v.system, v.tools = inChat, nil, nil
	for i := range p.sides {
		n := 0
		eventually(t, "the embedding model", func() bool { // each time another question, which the exact cache does not have
			n++
			about := fmt.Sprint("district ", n)
			v.askMeaning(t, i, about, "What is the population of "+about+"?", false, stored[i])
			return v.askMeaning(t, i, about, "tell me what the population of "+about+" is, please", false, stored[i]) == "semantic"
		})
	}
	for n := range 16 {
		v.turn = n
		row := r.IntN(len(rows))
		v.format, v.key = pick(r, inChat, inResponses, inMessages, inGemini), r.IntN(2)
		v.system, v.tools = nil, nil
		brief, armed, stream := r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(2) == 0
		if brief {
			v.system = []dialogPart{{text: "Be brief."}}
		}
		if armed {
			v.tools = tools
		}
		about, text := fmt.Sprint(row, v.key, brief, armed), pick(r, rows[row]...)
		for i := range p.sides {
			v.askMeaning(t, i, about, text, stream, stored[i])
		}
		if t.Failed() {
			t.Fatalf("%s\n%s", v, v.config)
		}
	}
}

// askMeaning asks a question, and reports where the answer comes from. about names its meaning and surroundings; stored is what was said in each.
func (v *dialog) askMeaning(t *testing.T, i int, about, text string, stream bool, stored map[string][]string) string {
	t.Helper()
	s, c := v.sides[i], &dialogClient{format: v.format}
	c.user([]dialogPart{{text: text}})
	call := c.call(v.model, stream, v.body("")(), v.header)
	call.Key = s.keys[v.key]
	q := &extrasTurn{call: call, stream: stream, plan: &dialogPlan{words: "so it is", echoes: 1, pieces: 5, model: v.model}}
	v.begin(i, q)
	held := balanceOf(t, s.g, call.Key)
	got := s.g.Do(t, call)
	v.record = nil
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("%s: %d %v %s", v, got.Status, got.Err, got.Body)
	}
	h := c.read(t, got, stream)
	v.checkPaid(t, i, q, got, held)
	v.checkServices(t, i)
	from := got.Header.Get("X-Bardo-Cache")
	if len(s.said) > 0 {
		stored[about] = append(stored[about], h.text)
		if want := v.expected(t, i); want.text != h.text || from == "semantic" || from == "hash" {
			t.Errorf("%s: %q is answered from %s with %q, the model says %q", v, text, from, h.text, want.text)
		}
		return from
	}
	v.checkStored(t, got, text, h.text, from, stored[about])
	return from
}

// checkStored: an answer that no provider gave is one of those to this question, costs nothing and says where it is from.
func (v *dialog) checkStored(t *testing.T, got gateway.Answer, text, said, from string, known []string) {
	t.Helper()
	if from != "semantic" && from != "hash" || !slices.Contains(known, said) {
		t.Errorf("%s: %q is answered from %q with %q, not one of %q", v, text, from, said, known)
	}
	if got.Header.Get("X-Bardo-Attempts") != "0" || (from == "semantic") != (got.Header.Get("X-Bardo-Similarity") != "") {
		t.Errorf("%s: %v", v, got.Header)
	}
}
