package align

import "strings"

// maxChangingLine is the number of bytes of a line that are examined.
const maxChangingLine = 512

// plainlyChanges reports whether a line has something that changes between requests: a date with a time, a time that is named as the current one, a counter of
// an agent's ticks, or a unique id of the request.
func plainlyChanges(line string) bool {
	line = line[:min(len(line), maxChangingLine)]
	for i := 0; i < len(line); i++ {
		if !isDigit(line[i]) {
			continue
		}
		end := i
		for end < len(line) && isDigit(line[end]) {
			end++
		}
		if isMoment(line, i, end) || isCounter(line, i, end) || isRequestID(line, i) {
			return true
		}
		i = end
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// precedingText is the text in lower case before an offset, of up to 40 bytes, which may describe the number there.
func precedingText(line string, i int) string { return strings.ToLower(line[max(0, i-40):i]) }

// isMoment reports whether the digits in a range begin a date with a time, or a time that is named as the current one.
func isMoment(line string, i, end int) bool {
	if shaped(line[i:], "0000-00-00T00:00") || shaped(line[i:], "0000-00-00 00:00") {
		return true
	}
	if end-i > 2 || !shaped(line[end:], ":00") {
		return false
	}
	preceding := precedingText(line, i)
	for _, words := range [...]string{"current time", "current date and time", "local time", "utc time", "it is now", "timestamp"} {
		if strings.Contains(preceding, words) {
			return true
		}
	}
	return false
}

// shaped reports whether a text begins with a shape, in which 0 is any digit.
func shaped(text, shape string) bool {
	if len(text) < len(shape) {
		return false
	}
	for i := range len(shape) {
		if shape[i] == '0' && !isDigit(text[i]) || shape[i] != '0' && text[i] != shape[i] {
			return false
		}
	}
	return true
}

// isCounter reports whether the digits in a range are a counter, such as "Tick 12" or "Block height: 21000000", or seconds since 1970.
func isCounter(line string, i, end int) bool {
	preceding := strings.TrimRight(precedingText(line, i), " \t:=#\"'`*|>")
	if end-i >= 9 {
		for _, word := range [...]string{"timestamp", "unix time", "epoch"} {
			if strings.HasSuffix(preceding, word) {
				return true
			}
		}
	}
	for _, more := range [...]string{" id", " number", "_id", "_number", " no."} {
		preceding = strings.TrimSuffix(preceding, more)
	}
	for _, word := range [...]string{"tick", "block", "block height", "nonce", "sequence"} {
		if end-i >= 2 && endsWithWord(preceding, word) {
			return true
		}
	}
	return false
}

func endsWithWord(text, word string) bool {
	rest, found := strings.CutSuffix(text, word)
	return found && (rest == "" || rest[len(rest)-1] < 'a' || rest[len(rest)-1] > 'z')
}

// isRequestID reports whether the digit at i is of the id of a request, a run, a trace or a session.
func isRequestID(line string, i int) bool {
	const minID, maxID = 8, 40
	first, end := i, i
	for first > max(0, i-maxID) && isHex(line[first-1]) {
		first--
	}
	for end < min(len(line), i+maxID) && isHex(line[end]) {
		end++
	}
	preceding := strings.TrimRight(precedingText(line, first), " \t:=#\"'`*|>")
	if end-first < minID {
		return false
	}
	for _, of := range [...]string{"request", "trace", "run", "session"} {
		for _, id := range [...]string{" id", "_id", "-id", "id"} {
			if endsWithWord(preceding, of+id) {
				return true
			}
		}
	}
	return false
}

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' || c == '-'
}
