// Package message reads and writes answers in the format of Anthropic's Messages API: one message object, a stream of its events, a count
// of tokens, or an error. Decoder reads a provider's answer; NewEncoder writes a client's. Requests are package anthropic's.
package message
