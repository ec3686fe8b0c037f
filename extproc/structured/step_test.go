package structured

import (
	"encoding/json"
	"testing"
)

// The library compares a value with each of an enum's values, which is not counted as steps: it must not see an enum.
func TestEveryEnumIsMovedOutOfTheLibrarysReach(t *testing.T) {
	var doc any
	schema := `{"enum":[1],"properties":{"enum":{"enum":["a"]}},"items":{"anyOf":[{"enum":[2]}]},"$defs":{"d":{"enum":[3]}},"const":{"enum":[4]}}`
	if err := json.Unmarshal([]byte(schema), &doc); err != nil {
		t.Fatal(err)
	}
	replaceEnums(doc)
	got, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"$defs":{"d":{"bardo:enum":[3]}},"bardo:enum":[1],"const":{"enum":[4]},"items":{"anyOf":[{"bardo:enum":[2]}]},"properties":{"enum":{"bardo:enum":["a"]}}}`
	if string(got) != want {
		t.Errorf("the library reads\n%s\nwant\n%s", got, want)
	}
}
