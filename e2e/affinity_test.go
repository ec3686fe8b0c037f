package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// A conversation goes back to where its beginning is known.

// lengthy is a system prompt that is worth to be cached.
func lengthy(about string) string {
	return "You are an agent about " + about + ". " + strings.Repeat("You trade carefully and say why. ", 200)
}

// talk is a conversation: a system prompt and so many user turns, with answers between them.
type talk struct {
	model, system string
	stream        bool
}

func (c talk) turn(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":%q,"stream":%v,"messages":[{"role":"system","content":%q}`, c.model, c.stream, c.system)
	for i := range n {
		fmt.Fprintf(&b, `,{"role":"user","content":"question %d"}`, i)
		if i < n-1 {
			fmt.Fprintf(&b, `,{"role":"assistant","content":"answer %d"}`, i)
		}
	}
	return b.String() + "]}"
}

// by asks and says who answered.
func (c talk) by(t *testing.T, g *gateway.Gateway, n int, key string) string {
	t.Helper()
	got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: c.turn(n), Key: key})
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("%d %v %s", got.Status, got.Err, got.Body)
	}
	return got.Header.Get("X-Bardo-Provider")
}

// count is how many completions reached each of some providers.
func count(ps ...*fake.Server) []int {
	n := make([]int, len(ps))
	for i, p := range ps {
		n[i] = len(p.Generations())
	}
	return n
}

// TestAConversationStaysAtOneOfItsProvidersEndpoints, and others are spread over all.
func TestAConversationStaysAtOneOfItsProvidersEndpoints(t *testing.T) {
	t.Parallel()
	var ends []*fake.Server
	var urls []string
	for i := range 3 {
		ends = append(ends, fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: fmt.Sprintf("end-%d", i), Key: "sk-all"}))
		urls = append(urls, fmt.Sprintf("%q", ends[i].URL))
	}
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(`
providers:
  custom:
    - {id: own, endpoints: [%s], api_key: sk-all, models: [{id: m}]}
`, strings.Join(urls, ", "))})
	for _, stream := range []bool{false, true} {
		for i := range 8 {
			c := talk{"m", lengthy(fmt.Sprintf("matter %d, %v", i, stream)), stream}
			for _, e := range ends {
				e.Forget()
			}
			for n := 1; n <= 4; n++ {
				c.by(t, g, n, "")
			}
			if at := count(ends...); max(at[0], at[1], at[2]) != 4 {
				t.Errorf("conversation %d, stream=%v, went to its endpoints %v times", i, stream, at)
			}
		}
	}
	for _, e := range ends {
		e.Forget()
	}
	for i := range 60 {
		talk{"m", lengthy(fmt.Sprintf("another matter %d", i)), false}.by(t, g, 1, "")
	}
	for i, n := range count(ends...) {
		if n < 4 {
			t.Errorf("endpoint %d got %d of 60 conversations", i, n)
		}
	}
	for _, e := range ends {
		e.Forget()
	}
	for range 60 {
		text(t, ask{dialect: fake.OpenAI, model: "m"}, g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()))
	}
	for i, n := range count(ends...) {
		if n < 4 {
			t.Errorf("endpoint %d got %d of 60 small requests", i, n)
		}
	}
}

// TestAConversationStaysWithItsKey while small requests take turns.
func TestAConversationStaysWithItsKey(t *testing.T) {
	t.Parallel()
	g, p := severalKeys(t, "sk-one", "sk-two", "sk-three")
	for i := range 4 {
		c := talk{"m", lengthy(fmt.Sprintf("matter %d", i)), i%2 == 0}
		p.Forget()
		for n := 1; n <= 4; n++ {
			c.by(t, g, n, "")
		}
		if n := byKey(p); len(n) != 1 {
			t.Errorf("conversation %d used the keys %v", i, n)
		}
	}
	c := talk{"m", lengthy("a matter whose key is refused"), false}
	c.by(t, g, 1, "")
	last, _ := p.Last()
	p.BehaveWith(last.Key(), fake.Behaviour{Status: http.StatusTooManyRequests, RetryAfter: "60"})
	p.Forget()
	for n := 2; n <= 5; n++ {
		c.by(t, g, n, "")
	}
	if n := byKey(p); n[last.Key()] != 1 || len(n) != 2 {
		t.Errorf("after the refusal the conversation used the keys %v", n)
	}
}

// warmPair is two providers of the same models at the same price, and of one that is dearer at the second. The first one fails once, so
// that a conversation begins at the second.
func warmPair(t *testing.T) (g *gateway.Gateway, first, second *fake.Server) {
	t.Helper()
	first = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
	second = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
	dear := gateway.Model{ID: "dear", Price: "{input: 2, output: 4}"}
	return gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "first", Fake: first, Models: append(models("m", ""), models("dear", "")...)},
		{ID: "second", Fake: second, Models: append(models("m", ""), dear)},
	}}), first, second
}

// begins has a conversation begin at the second provider.
func (c talk) begins(t *testing.T, g *gateway.Gateway, first *fake.Server) {
	t.Helper()
	first.Queue(fake.Behaviour{Status: http.StatusInternalServerError})
	if by := c.by(t, g, 1, ""); by != "second" {
		t.Fatalf("the conversation begins at %s", by)
	}
}

// TestAConversationGoesBackToTheProviderThatKnowsIt if that asks no more than the first choice and is well.
func TestAConversationGoesBackToTheProviderThatKnowsIt(t *testing.T) {
	t.Parallel()
	g, first, second := warmPair(t)
	for _, stream := range []bool{false, true} {
		c := talk{"m", lengthy(fmt.Sprintf("trading, stream=%v", stream)), stream}
		c.begins(t, g, first)
		for n := 2; n <= 4; n++ {
			if by := c.by(t, g, n, ""); by != "second" {
				t.Errorf("stream=%v: turn %d is answered by %s", stream, n, by)
			}
		}
	}
	if by := (talk{"m", lengthy("something else"), false}).by(t, g, 1, ""); by != "first" {
		t.Errorf("another conversation is answered by %s", by)
	}
	dear := talk{"dear", lengthy("what costs more there"), false}
	dear.begins(t, g, first)
	if by := dear.by(t, g, 2, ""); by != "first" {
		t.Errorf("a conversation goes back to where it costs more: %s", by)
	}

	c := talk{"m", lengthy("health"), false}
	c.begins(t, g, first)
	second.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	eventually(t, "the second provider's fall", func() bool {
		g.Do(t, ask{dialect: fake.OpenAI, model: "second/m"}.call())
		return standings(t, g)["second"].State == "down"
	})
	second.Forget()
	if by := c.by(t, g, 2, ""); by != "first" || len(second.Generations()) != 0 {
		t.Errorf("with its provider down, the conversation is answered by %s, and %d requests reached that provider", by, len(second.Generations()))
	}
}

// TestK87ATrivialBeginningLeavesAConversationFree: what begins with a greeting is not held where the greeting was answered.
func TestK87ATrivialBeginningLeavesAConversationFree(t *testing.T) {
	t.Parallel()
	g, first, _ := warmPair(t)
	c := talk{"m", "You are brief.", false}
	c.begins(t, g, first)
	if by := c.by(t, g, 2, ""); by != "first" {
		t.Errorf("the next turn is answered by %s", by)
	}
	grown := strings.Replace(c.turn(3), "question 2", lengthy("what came later"), 1)
	got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: grown})
	if by := got.Header.Get("X-Bardo-Provider"); by != "first" {
		t.Errorf("what it grew into is answered by %s", by)
	}
}

// TestK91AnotherTenantsConversationIsNotKnown, though every byte of it is the same.
func TestK91AnotherTenantsConversationIsNotKnown(t *testing.T) {
	t.Parallel()
	g, first, _ := warmPair(t)
	other := g.CreateKey(t, "--name", "other")
	c := talk{"m", lengthy("the same words"), false}
	c.begins(t, g, first)
	if by := c.by(t, g, 2, other.Key); by != "first" {
		t.Errorf("the other tenant is answered by %s", by)
	}
	if by := c.by(t, g, 3, ""); by != "second" {
		t.Errorf("the first tenant is answered by %s", by)
	}
}

// TestAModelOfAProviderThatIsNamedIsAskedThere, whoever knows the conversation.
func TestAModelOfAProviderThatIsNamedIsAskedThere(t *testing.T) {
	t.Parallel()
	g, first, _ := warmPair(t)
	c := talk{"m", lengthy("names"), false}
	c.begins(t, g, first)
	c.model = "first/m"
	if by := c.by(t, g, 2, ""); by != "first" {
		t.Errorf("first/m is answered by %s", by)
	}
}
