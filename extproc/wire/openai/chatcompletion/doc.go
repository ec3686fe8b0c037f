// Package chatcompletion reads and writes answers in the format of OpenAI Chat Completions: one chat.completion object, a stream of
// chat.completion.chunk events, or an error. Decoder reads a provider's answer; NewEncoder writes a client's. Requests are package
// openai's.
//
// In addition to OpenAI's own members it reads those of compatible servers: reasoning, reasoning_content, reasoning_details, citations and
// others.
package chatcompletion
