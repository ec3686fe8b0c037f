package semantic_test

import (
	"strconv"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/cache/semantic"
)

func TestQuestionsOfOneForm(t *testing.T) {
	for _, row := range [][]string{
		{"What is the capital of France?", "tell me the capital of France", "What's France's capital?", "what is the capital of france", "Could you tell me the capital of France, please?"},
		{"How do I reset my router?", "how can I reset my router", "How to reset my router", "What are the steps to reset my router?", "Please show me how to reset my router"},
		{"How much does a Tesla cost?", "What is the price of a Tesla?", "the price of a Tesla", "What does a Tesla cost?"},
		{"Why is the sky blue?", "Can you tell me why the sky is blue?", "how come the sky is blue?"},
		{"What is photosynthesis?", "Explain photosynthesis", "Tell me about photosynthesis", "Can you explain what photosynthesis is?"},
		{"What is 15% of 200?", "what is 15 percent of 200", "Calculate 15 percent of 200"},
		{"Name 3 large animals", "Name three big animals"},
		{"Transfer $50 to the vault", "transfer 50 dollars to the vault"},
		{"What happened on March 5, 2024?", "What happened on 5 March 2024?", "what happened on March 5th, 2024"},
		{"Withdraw 1,000 USDC from the vault", "withdraw 1000 usdc from the vault"},
		{`What does "to be" mean?`, "what does “to be” mean"},
		{"I can't log in to the app", "I cannot sign in to the application"},
		{"Write to <EMAIL_0A1B2C3D> and explain it", "write to <EMAIL_0A1B2C3D> and explain it."},
		{"¿Dónde está el baño?", "¿Dónde  está el baño?"},
	} {
		for _, other := range row[1:] {
			if a, b := semantic.FormOf(row[0]), semantic.FormOf(other); a != b {
				t.Errorf("%q is %q, and %q is %q", row[0], a, other, b)
			}
		}
	}
}

// TestK59LookAlikesHaveDifferentForms: what differs in more than words that do not matter.
func TestK59LookAlikesHaveDifferentForms(t *testing.T) {
	for _, row := range [][2]string{
		{"what is 2+2", "what is 2+3"},
		{"buy ETH", "do not buy ETH"},
		{"Is 0x52908400098527886E0F7030069857D2E4169EE7 safe?", "Is 0x52908400098527886E0F7030069857D2E4169EE8 safe?"},
		{"Is it open?", "Does it open?"},
		{"Are they like me?", "Do they like me?"},
		{"When is it open?", "When does it open?"},
		{"Why is it open?", "Why does it open?"},
		{"What am I?", "What do I do?"},
		{"Who was the director of the FBI?", "Who is the director of the FBI?"},
		{"What is 5!", "What is 5"},
		{"Is 1 in (1,2]?", "Is 1 in [1,2]?"},
		{"Are there a few errors?", "Are there few errors?"},
		{"Recommend a book", "Recommend books"},
		{"What is HTTP?", "What is HTTPS?"},
		{"How fast is http?", "How fast is https?"},
		{"Explain the work of Adam Smith", "Explain the work of Adams Smith"},
		{"What is the US visa policy?", "What is us visa policy?"},
		{"How much does an apple cost?", "How much does an Apple cost?"},
		{"What do cats eat?", "Do cats eat?"},
		{"What is the height of K2?", "What is the age of K2?"},
		{"How big is a cup of tea?", "How big is a tea cup?"},
		{`Translate "the cat" to French`, `Translate "a cat" to French`},
		{`What does "Is" mean?`, `What does "is" mean?`},
		{"Explain the price of bitcoin", "What is the price of bitcoin?"},
		{"Tell me about the capital of France", "Tell me the capital of France"},
		{"Can I cancel the order?", "How can I cancel the order?"},
		{"Can you swim?", "Could I swim?"},
		{"How do I find your address?", "How do I find my address?"},
		{"What should I do with C?", "What should I do with C++?"},
		{"Transfer 50 USD", "Transfer 50 EUR"},
		{"Transfer $50", "Transfer £50"},
		{"He was rich and is poor", "He is rich and was poor"},
		{"Does it work?", "Did it work?"},
		{"Summarize the text in 1 line", "Summarize the text in 11 lines"},
		{"Is the bridge from Base to OP open?", "Is the bridge from OP to Base open?"},
		{"vuelos de Lima a Quito", "vuelos de Lima Quito"},
		{"Ist es nicht offen", "Ist es offen"},
		{"IS THE SHOP OPEN", "is the shop open"},
		{"sort `a` in Go", "sort `b` in Go"},
		{"What is this?\nfoo(a)", "What is this?\nfoo( a, b)"},
		{"What's in the news?", "What's in the new?"},
		{"What comes first?", "What comes last?"},
		{"Describe everything but the end", "Describe everything and the end"},
	} {
		if a, b := semantic.FormOf(row[0]), semantic.FormOf(row[1]); a == b {
			t.Errorf("%q and %q are both %q", row[0], row[1], a)
		}
	}
}

func TestPlainQuestionsHaveNoPoliteness(t *testing.T) {
	for text, want := range map[string]string{
		"Hi! Could you please tell me what's France's capital? Thanks": "what is france's capital",
		"Wie heißt die Hauptstadt?":                                    "Wie heißt die Hauptstadt?",
		"please":                                                       "please",
		"can you swim":                                                 "can you swim",
	} {
		if got := semantic.Plain(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// FuzzTextsDifferByNumbersAndWords: whatever a question is about, another number in it, a negation, or one more word makes another form of it; its case,
// its white space and thanks at its end do not.
func FuzzTextsDifferByNumbersAndWords(f *testing.F) {
	for _, text := range []string{
		"What is the capital of France?", "how do i swap", "Transfer USDC to the vault", "Wie geht das", "explain it to me please", "what's \"the\" price of x's", "0x12 [1,2)", "The cost of a few",
		"tell me about a", "where is ^x", "\x01\x02\x01", "日本", "is", "a", "do",
	} {
		f.Add(text, uint16(7), uint16(11))
	}
	f.Fuzz(func(t *testing.T, text string, a, b uint16) {
		text = text[:min(len(text), 300)]
		one := semantic.FormOf(text + " about " + strconv.Itoa(int(a)))
		other := semantic.FormOf(text + " about " + strconv.Itoa(int(b)))
		if a != b && one == other {
			t.Errorf("with %d and with %d it is %q", a, b, one)
		}
		if semantic.FormOf(text+" about gizmos") == semantic.FormOf(text+" not about gizmos") {
			t.Errorf("%q loses a negation", text)
		}
		if semantic.FormOf(text+" about gizmos") == semantic.FormOf(text+" about gadgets") {
			t.Errorf("%q loses a word", text)
		}
		spaced := strings.Join(strings.Fields(text), "  ")
		if plain := strings.Join(strings.Fields(text), " "); semantic.FormOf(spaced) != semantic.FormOf(plain) {
			t.Errorf("%q differs by its spaces", text)
		}
		_ = semantic.Plain(text)
	})
}

func BenchmarkForm(b *testing.B) {
	for b.Loop() {
		semantic.FormOf("Could you please tell me what the difference between the price of ETH and the price of BTC was on March 5th, 2024?")
	}
}
