package wire

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// SearchResult is a search result that the gateway adds to a conversation. In a request it is a separate text part in the format below; for
// providers whose format has blocks for search results, it is converted to one.
type SearchResult struct {
	Source string
	Title  string
	Text   string
}

// The format of a result's text: source and title on the first line, then the text.
const (
	resultOpening = `<search_result source="`
	resultTitle   = `" title="`
	resultLine    = "\">\n"
	resultClosing = "\n</search_result>"
)

// inAttribute replaces characters that source and title must not contain, and inText text that would end a result early.
var (
	inAttribute = strings.NewReplacer(`"`, "'", "\r", " ", "\n", " ", "<", "(", ">", ")")
	inText      = strings.NewReplacer("</search_result", "< /search_result", "<search_result", "< search_result")
)

// String formats the result as text.
func (r *SearchResult) String() string {
	return resultOpening + inAttribute.Replace(r.Source) + resultTitle + inAttribute.Replace(r.Title) + resultLine + inText.Replace(r.Text) + resultClosing
}

// ParseSearchResult parses a text written by String; ok is false for any other text.
func ParseSearchResult(text string) (r SearchResult, ok bool) {
	if !IsSearchResult(text) {
		return r, false
	}
	first, rest, _ := strings.Cut(text[len(resultOpening):], resultLine)
	if r.Source, r.Title, ok = strings.Cut(first, resultTitle); !ok || strings.ContainsAny(first, "\r\n<>") || strings.Contains(r.Title, `"`) {
		return SearchResult{}, false
	}
	if r.Text, ok = strings.CutSuffix(rest, resultClosing); !ok || strings.Contains(r.Text, "<search_result") || strings.Contains(r.Text, "</search_result") {
		return SearchResult{}, false
	}
	return r, true
}

// IsSearchResult reports whether a text starts like a result.
func IsSearchResult(text string) bool { return strings.HasPrefix(text, resultOpening) }

// JoinTexts returns a request of OpenAI's format in which the last message, if it consists of texts and the gateway added results to it,
// has a single string as content: some servers of the format accept only strings. Any other request is returned unchanged.
func JoinTexts(r *chat.Request) *chat.Request {
	return changeLast(r, func(content jsonx.Value) jsonx.Raw {
		var texts []string
		for _, part := range content.Each {
			text, ok := part.Get("text").Str()
			if !ok || !hasOnly(part, "type", "text") {
				return nil
			}
			texts = append(texts, text)
		}
		return jsonx.AppendString(nil, strings.Join(texts, "\n\n"))
	})
}

// ResultBlocks returns a request of Anthropic's format in whose last message the results that the gateway added are search_result blocks.
func ResultBlocks(r *chat.Request, cite bool) *chat.Request {
	return changeLast(r, func(content jsonx.Value) jsonx.Raw {
		b := jsonx.Raw("[")
		for i, part := range content.Each {
			if i > 0 {
				b = append(b, ',')
			}
			text, _ := part.Get("text").Str()
			if result, ok := ParseSearchResult(text); ok && hasOnly(part, "type", "text") {
				b = append(result.AppendBlock(b, cite), '}')
				continue
			}
			b = append(b, part.Raw...)
		}
		return append(b, ']')
	})
}

// AppendBlock appends the result as a search_result block of Anthropic's format, without its closing brace.
func (r *SearchResult) AppendBlock(b jsonx.Raw, cite bool) jsonx.Raw {
	b = jsonx.AppendString(append(b, `{"type":"search_result","source":`...), r.Source)
	b = jsonx.AppendString(append(b, `,"title":`...), r.Title)
	b = append(jsonx.AppendString(append(b, `,"content":[{"type":"text","text":`...), r.Text), "}]"...)
	if cite {
		b = append(b, `,"citations":{"enabled":true}`...)
	}
	return b
}

func hasOnly(object jsonx.Value, keys ...string) bool {
	for key := range object.Members {
		if !slices.Contains(keys, string(key)) {
			return false
		}
	}
	return true
}

// changeLast replaces the content of the last message of a request to which results were added, if the content is an array. change returns
// nil to keep it.
func changeLast(r *chat.Request, change func(content jsonx.Value) jsonx.Raw) *chat.Request {
	if !r.Retrieved {
		return r
	}
	var content jsonx.Value
	for _, m := range r.Doc.Get("messages").Each {
		content = m.Get("content")
	}
	if content.Kind() != jsonx.Array {
		return r
	}
	raw := change(content)
	if raw == nil {
		return r
	}
	e := r.Edit.Clone()
	e.Replace(content.At, content.At+len(content.Raw), raw)
	doc, err := jsonx.Scan(e.AppendTo(make([]byte, 0, e.Len(&r.Doc)), &r.Doc))
	if err != nil {
		return r
	}
	out := *r
	out.Doc, out.Edit, out.Conv = doc, jsonx.Edits{}, nil
	return &out
}
