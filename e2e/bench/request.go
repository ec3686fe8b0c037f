package main

import (
	"fmt"
	"strconv"
	"strings"
)

// sentence is what the conversation is made of: prose, with the escapes that text in JSON has.
const sentence = `The order \"4711\" left the warehouse at 09:30;\nits label says: \u201cfragile\u201d, so it goes by road. `

// turnSize is about the length of one message of a long conversation, in bytes.
const turnSize = 2000

// request is a whole HTTP request for a chat completion whose body has c.size bytes.
func request(path, model, key string, c testCase) []byte {
	payload := body(model, c.stream, c.size)
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench/1\r\nAccept: */*\r\nContent-Type: application/json\r\n", path)
	if key != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", key)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(payload), payload)
	return []byte(b.String())
}

// body is a conversation of size bytes, at least of its frame. Its temperature leaves something to chance, so that no cache answers it.
func body(model string, stream bool, size int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":%q,"stream":%s,"max_tokens":256,"temperature":0.7,"messages":[`, model, strconv.FormatBool(stream))
	b.WriteString(`{"role":"system","content":"You answer questions about parcels, briefly."}`)
	const last = `,{"role":"user","content":"And when does it arrive? ` // then filler, to the byte
	const end = `"}]}`
	roles := [2]string{"user", "assistant"}
	for i := 0; ; i++ {
		turn := `,{"role":"` + roles[i%2] + `","content":"` + strings.Repeat(sentence, turnSize/len(sentence)) + `"}`
		if i%2 == 0 && b.Len()+2*(len(turn)+len("assistant"))+len(last)+len(end) > size {
			break // a conversation ends with its user
		}
		b.WriteString(turn)
	}
	b.WriteString(last)
	for b.Len()+len(sentence)+len(end) <= size {
		b.WriteString(sentence)
	}
	b.WriteString(strings.Repeat(".", max(0, size-b.Len()-len(end))))
	b.WriteString(end)
	return b.String()
}
