package align

import "strings"

// maxChangingLine is how much of a line is looked at.
const maxChangingLine = 512

// plainlyChanges reports whether a line holds what changes between requests: a date with a time, a time that is said to be the current one, a counter of
// an agent's ticks, or a unique number of the request.
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

// before is the text before an offset, as far as it says what a number is, in lower case.
func before(line string, i int) string { return strings.ToLower(line[max(0, i-40):i]) }

// isMoment reports whether the digits in a range begin a date with a time, or a time that is said to be the current one.
func isMoment(line string, i, end int) bool {
	if shaped(line[i:], "0000-00-00T00:00") || shaped(line[i:], "0000-00-00 00:00") {
		return true
	}
	if end-i > 2 || !shaped(line[end:], ":00") {
		return false
	}
	said := before(line, i)
	for _, words := range [...]string{"current time", "current date and time", "local time", "utc time", "it is now", "timestamp"} {
		if strings.Contains(said, words) {
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

// isCounter reports whether the digits in a range are a count that goes on, such as "Tick 12" or "Block height: 21000000", or seconds since 1970.
func isCounter(line string, i, end int) bool {
	said := strings.TrimRight(before(line, i), " \t:=#\"'`*|>")
	if end-i >= 9 {
		for _, word := range [...]string{"timestamp", "unix time", "epoch"} {
			if strings.HasSuffix(said, word) {
				return true
			}
		}
	}
	for _, more := range [...]string{" id", " number", "_id", "_number", " no."} {
		said = strings.TrimSuffix(said, more)
	}
	for _, word := range [...]string{"tick", "block", "block height", "nonce", "sequence"} {
		if end-i >= 2 && endsWithWord(said, word) {
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
	const least, maxID = 8, 40
	first, end := i, i
	for first > max(0, i-maxID) && isHex(line[first-1]) {
		first--
	}
	for end < min(len(line), i+maxID) && isHex(line[end]) {
		end++
	}
	said := strings.TrimRight(before(line, first), " \t:=#\"'`*|>")
	if end-first < least {
		return false
	}
	for _, of := range [...]string{"request", "trace", "run", "session"} {
		for _, id := range [...]string{" id", "_id", "-id", "id"} {
			if endsWithWord(said, of+id) {
				return true
			}
		}
	}
	return false
}

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' || c == '-'
}
