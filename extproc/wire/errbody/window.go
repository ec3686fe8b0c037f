package errbody

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
)

// Overflow is OpenAI's code of a request that does not fit in the model's context window.
const Overflow = "context_length_exceeded"

// overflows are phrases of such errors, in lower case, of providers that have no code for them: Anthropic's two, Google's, those of OpenAI and
// of compatible servers, llama.cpp's and Amazon's.
var overflows = [...]string{
	"prompt is too long", "exceed context limit", "exceeds the maximum number of tokens allowed", "maximum context length", "exceeds the context window",
	"exceeds the available context size", "input is too long for requested model",
}

// noteOverflow sets the code of an error that only says in its message that the request does not fit in the model's context window: clients
// compact their conversation by the code.
func noteOverflow(e *chat.ProviderError) {
	if strings.Trim(e.Code, "0123456789") != "" && e.Code != e.Type {
		return
	}
	message := strings.ToLower(e.Message)
	for _, phrase := range overflows {
		if strings.Contains(message, phrase) {
			e.Code = Overflow
			return
		}
	}
}
