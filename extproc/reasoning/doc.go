// Package reasoning normalises the reasoning of all providers. A Reader separates reasoning in tags (<think>) from the text; a Recorder collects
// an answer's reasoning into one Chain. It works on the canonical events of answers and does not know API formats.
package reasoning
