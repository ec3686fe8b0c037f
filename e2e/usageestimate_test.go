package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// shownUsage matches the members of a usage object, by the client's format: input and output.
var shownUsage = map[string][2]*regexp.Regexp{
	"openai":    {regexp.MustCompile(`"prompt_tokens": ?(\d+)`), regexp.MustCompile(`"completion_tokens": ?(\d+)`)},
	"anthropic": {regexp.MustCompile(`"input_tokens": ?(\d+)`), regexp.MustCompile(`"output_tokens": ?(\d+)`)},
	"responses": {regexp.MustCompile(`"input_tokens": ?(\d+)`), regexp.MustCompile(`"output_tokens": ?(\d+)`)},
	"gemini":    {regexp.MustCompile(`"promptTokenCount": ?(\d+)`), regexp.MustCompile(`"candidatesTokenCount": ?(\d+)`)},
}

// usageCall is a request in a client's format.
func usageCall(format, model string, stream bool) gateway.Call {
	switch format {
	case "responses":
		return gateway.Call{Path: "/v1/responses", Body: fmt.Sprintf(`{"model":%q,"input":"hi","stream":%v}`, model, stream)}
	case "openai":
		a := ask{dialect: fake.OpenAI, model: model, stream: stream}
		if stream {
			a.more = `"stream_options":{"include_usage":true}`
		}
		return a.call()
	}
	return ask{dialect: fake.Dialect(format), model: model, stream: stream}.call()
}

// lastNumber is the last match of a pattern with a number in a text; -1 for none.
func lastNumber(pattern *regexp.Regexp, text string) int {
	all := pattern.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return -1
	}
	n, _ := strconv.Atoi(all[len(all)-1][1]) // digits
	return n
}

// TestClientsOfOtherFormatsSeeTheEstimate: of a provider that reports no usage, or zeros, clients of other formats see the estimate that is billed. Clients of
// the provider's own format get what it sent.
func TestClientsOfOtherFormatsSeeTheEstimate(t *testing.T) {
	t.Parallel()
	l := newGeminiLab(t)
	for name, usage := range map[string]*fake.Usage{"none": {Missing: true}, "zeros": {}} {
		for _, provider := range formats {
			l.fakes[provider].BehaveFor("m-"+string(provider), fake.Behaviour{Tokens: 40, Usage: usage})
		}
		for _, provider := range formats {
			for client, shown := range shownUsage {
				for _, stream := range []bool{false, true} {
					what := fmt.Sprintf("usage %s, %s at a provider of %s, stream %v", name, client, provider, stream)
					got := l.Do(t, usageCall(client, "m-"+string(provider), stream))
					b := billOf(t, l.Gateway, l.Key, got.Header.Get("X-Request-Id"))
					body := comments.ReplaceAllString(got.Body, "")
					input, output := lastNumber(shown[0], body), lastNumber(shown[1], body)
					switch {
					case got.Status != 200 || !b.UsageEstimated || b.InputTokens == 0 || b.OutputTokens == 0:
						t.Errorf("%s: %d, bill %+v", what, got.Status, b)
					case client == string(provider):
						if input > 0 || output > 0 {
							t.Errorf("%s: the client sees %d and %d, which the provider did not send", what, input, output)
						}
					case input != b.InputTokens || output != b.OutputTokens:
						t.Errorf("%s: the client sees %d and %d, the bill has %d and %d\n%s", what, input, output, b.InputTokens, b.OutputTokens, got.Body)
					}
				}
			}
		}
	}
}
