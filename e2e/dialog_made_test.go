package e2e

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
)

// dialogTool is a tool of a client.
type dialogTool struct {
	name, says string
	schema     object
}

// dialogWords make up texts, names and descriptions.
var dialogWords = strings.Fields("positions health prices vaults swaps orders depot parcels ledger reads writes lists the a of with and openly closed risks filed paths windy reports Größe наличие 価格 αριθμός nothing ought")

func someWords(r *rand.Rand, n int) string {
	w := make([]string, n)
	for i := range w {
		w[i] = pick(r, dialogWords...)
	}
	return strings.Join(w, " ")
}

// newTools are a client's tools.
func (v *dialog) newTools(n int) (tools []dialogTool) {
	r := v.r
	for i := range n {
		t := dialogTool{name: fmt.Sprintf("%s_%s-%d", pick(r, "get", "read", "bash", "list", "swap", "market"), pick(r, "price", "file", "position", "health", "pool"), i), says: someWords(r, r.IntN(12))}
		if r.IntN(8) == 0 {
			t.says += strings.Repeat(" "+someWords(r, 10), 20)
		}
		if r.IntN(6) == 0 {
			t.says += " " + v.planted()
		}
		t.schema = v.newSchema(0)
		t.schema["type"] = "object"
		if t.schema["properties"] == nil {
			t.schema["properties"] = object{"path": object{"type": "string"}}
		}
		if r.IntN(5) == 0 {
			t.schema["$defs"] = object{"leaf": object{"type": "string", "description": someWords(r, 3)}}
			inside(t.schema, "properties").(object)["ref"] = object{"$ref": "#/$defs/leaf"}
		}
		tools = append(tools, t)
	}
	return tools
}

func (v *dialog) newSchema(depth int) object {
	r := v.r
	kind := r.IntN(8)
	if depth == 0 {
		kind = 0
	}
	switch {
	case kind < 2 && depth < 4:
		of, required := object{}, []any{}
		for range r.IntN(4) {
			name := pick(r, "path", "amount", "größe", "名前", "deep", "to", "a b", "x-y")
			if of[name] = v.newSchema(depth + 1); r.IntN(2) == 0 && !strings.Contains(fmt.Sprint(required), name) {
				required = append(required, name)
			}
		}
		s := object{"type": "object", "properties": of}
		if len(required) > 0 {
			s["required"] = required
		}
		if r.IntN(3) == 0 {
			s["additionalProperties"] = false
		}
		return s
	case kind == 2 && depth < 4:
		return object{"type": "array", "items": v.newSchema(depth + 1)}
	case kind == 3:
		return object{"type": "integer", "minimum": 0}
	case kind == 4:
		return object{"type": "string", "enum": []any{"first", "second " + someWords(r, 1)}}
	case kind == 5:
		return object{"anyOf": []any{object{"type": "string"}, object{"type": "null"}}}
	case kind == 6 && r.IntN(3) == 0:
		return object{"type": "string", "description": "such as " + v.planted()}
	}
	return object{"type": "string", "description": someWords(r, r.IntN(5))}
}

// exampleOf is a value that follows a schema; texts say what its strings are.
func exampleOf(root, schema any, texts func() string) any {
	s, _ := schema.(object)
	switch {
	case s["$ref"] != nil:
		return exampleOf(root, inside(root, "$defs", "leaf"), texts)
	case s["anyOf"] != nil:
		return exampleOf(root, inList(s["anyOf"])[0], texts)
	case s["enum"] != nil:
		return inList(s["enum"])[0]
	}
	switch s["type"] {
	case "object":
		o := object{}
		if of, ok := s["properties"].(object); ok {
			for _, name := range sortedKeys(of) {
				o[name] = exampleOf(root, of[name], texts)
			}
		}
		return o
	case "array":
		return []any{exampleOf(root, s["items"], texts), exampleOf(root, s["items"], texts)}
	case "integer":
		return 3
	}
	return texts()
}

// The values that a conversation may have, each of its own number.
var dialogValues = []func(n int) string{
	func(n int) string { return fmt.Sprintf("jane.doe%d@mail%d.example.org", n, n%7) },
	func(n int) string { return fmt.Sprintf("EMP-%06d", n) },
	func(n int) string { return fmt.Sprintf("203.0.113.%d", 1+n%250) },
	func(n int) string { return withIBANCheck(fmt.Sprintf("3704004405320%05d", n)) },
	func(n int) string { return withLuhn(fmt.Sprintf("41111111%07d", n)) },
	func(n int) string { return fmt.Sprintf("+49 30 9018%02d%d", n%90+10, n%10) },
	func(n int) string { return fmt.Sprintf("sk-ant-Zx8Kq2mN5vB7cL1pR4t%05dY6uW9", n) },
	func(n int) string { return fmt.Sprintf("https://bob:hunt%dQx7z@db.example.com/x", n) },
}

func withIBANCheck(account string) string {
	n, _ := new(big.Int).SetString(account+"131400", 10) // it has digits alone
	return fmt.Sprintf("DE%02d%s", 98-new(big.Int).Mod(n, big.NewInt(97)).Int64(), account)
}

func withLuhn(number string) string {
	sum := 0
	for i, c := range number {
		d, _ := strconv.Atoi(string(c)) // they are digits
		if (len(number)-i)%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return number + strconv.Itoa((10-sum%10)%10)
}

// planted is a text with a value that must not leave the gateway, or one of before. Its number says which it is.
func (v *dialog) planted() string {
	if !v.plants {
		return someWords(v.r, 2)
	}
	n := len(v.values)
	if n > 0 && v.r.IntN(3) == 0 {
		n = v.r.IntN(n)
	} else {
		v.values = append(v.values, pick(v.r, dialogValues...)(n+v.r.IntN(50)*200))
	}
	return fmt.Sprintf("owner-%d %s", n, v.values[n])
}

// said is a text of a user or a tool.
func (v *dialog) says() string {
	switch v.r.IntN(6) {
	case 0:
		return v.planted()
	case 1:
		return "please " + someWords(v.r, 6) + ".\n" + v.planted() + "\n" + someWords(v.r, 3)
	case 2:
		return strings.Repeat(someWords(v.r, 12)+".\n", 1+v.r.IntN(40))
	case 3:
		return "ü \"quoted\" \\ \x01 < & > " + someWords(v.r, 4)
	}
	return someWords(v.r, 1+v.r.IntN(8))
}

// newResult is what a tool returned: sometimes what one has returned before, or nearly so.
func (v *dialog) newResult() (c dialogResult) {
	r := v.r
	c = dialogResult{picture: r.IntN(10) == 0, failed: r.IntN(10) == 0, split: r.IntN(4) == 0, withheld: r.IntN(15) == 0, asObject: r.IntN(3) == 0, behind: r.IntN(10) == 0}
	switch n := len(v.returned); {
	case n > 0 && r.IntN(3) == 0:
		c.text = pick(r, v.returned...)
		return c
	case n > 0 && r.IntN(4) == 0:
		c.text = strings.Replace(pick(r, v.returned...), "\n", "\nchanged "+someWords(r, 3)+"\n", 1)
	case r.IntN(4) == 0:
		c.text = fmt.Sprintf("{\n  \"rows\": [\n    {\"contact\":   %q},\n    %s\n  ]\n}", v.planted(), strings.TrimSuffix(strings.Repeat("{ \"n\": 1,\n \"t\": \"x\" },\n", 1+r.IntN(100)), ",\n"))
	case r.IntN(5) == 0:
		c.text = "\x1b[32mok\x1b[0m 10%\r 50%\r100%\n" + someWords(r, 20)
	case r.IntN(2) == 0:
		for i := range 40 + r.IntN(150) {
			c.text += fmt.Sprintf("%d: %s\n", i, someWords(r, 8))
		}
		c.text += v.says()
	default:
		c.text = v.says()
	}
	v.returned = append(v.returned, c.text)
	return c
}
