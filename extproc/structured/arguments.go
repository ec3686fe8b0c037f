package structured

import "strings"

// Issues returns what is wrong with the arguments of a tool by its schema, each with its path; none for valid ones, and for those that cannot be checked within the
// limits.
func (sch *Schema) Issues(args []byte) []string {
	issues := sch.validate(args)
	for i, s := range issues {
		if strings.HasPrefix(s, "the answer cannot be checked") {
			return nil
		}
		if rest, ok := strings.CutPrefix(s, "the answer"); ok {
			issues[i] = "the arguments" + rest
		}
	}
	return issues
}
