package jsonx

// Step is the position of a value in the object or array around it.
type Step struct {
	Key   []byte // of a member, unescaped; nil for an element
	Index int    // of an element, or of a member in its object
}

// Visitor receives the values of a text in order.
type Visitor interface {
	// Enter starts an object or an array, which may be empty. If it returns true, the content is visited, and then Leave is called.
	Enter(at Step, kind Kind, empty bool) (enter bool)
	Leave()
	// Scalar visits any other value.
	Scalar(at Step, v Value)
}

// Walk visits v and everything inside it in one pass, at any depth. Like the other methods it requires validated text.
func (v Value) Walk(to Visitor) {
	if v.Exists() {
		w := walker{in: v, b: v.Raw, ends: v.cursor(), to: to}
		w.value(Step{}, 0, 0)
	}
}

type walker struct {
	in   Value
	b    []byte // its text
	ends cursor
	to   Visitor
}

// value visits the value at i and returns its end; i itself if no value starts there.
func (w *walker) value(at Step, i, depth int) int {
	kind := Invalid
	if i < len(w.b) {
		kind = kindOf(w.b[i])
	}
	if kind != Object && kind != Array {
		end := w.ends.skipValue(w.b, i)
		if end > i {
			w.to.Scalar(at, w.in.part(i, end))
		}
		return end
	}
	first := skipSpace(w.b, i+1)
	empty := first < len(w.b) && (w.b[first] == '}' || w.b[first] == ']')
	if depth >= MaxDepth || !w.to.Enter(at, kind, empty) {
		return w.ends.skipNested(w.b, i)
	}
	if kind == Object {
		i = w.members(i, depth+1)
	} else {
		i = w.elements(i, depth+1)
	}
	w.to.Leave()
	return i
}

// members visits the members of the object at i and returns its end.
func (w *walker) members(i, depth int) int {
	b := w.b
	i = skipSpace(b, i+1)
	for n := 0; i < len(b) && b[i] == '"'; n++ {
		key, end, ok := readKey(b, i)
		if i = skipSpace(b, end); !ok || i >= len(b) || b[i] != ':' {
			return len(b)
		}
		i = skipSpace(b, i+1)
		if end = w.value(Step{Key: key, Index: n}, i, depth); end == i {
			return len(b)
		}
		if i = skipSpace(b, end); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return min(i+1, len(b))
}

// elements visits the elements of the array at i and returns its end.
func (w *walker) elements(i, depth int) int {
	b := w.b
	i = skipSpace(b, i+1)
	for n := 0; i < len(b) && b[i] != ']'; n++ {
		end := w.value(Step{Index: n}, i, depth)
		if end == i {
			return len(b)
		}
		if i = skipSpace(b, end); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return min(i+1, len(b))
}
