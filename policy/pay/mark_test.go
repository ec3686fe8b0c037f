package pay

import "testing"

func TestAMarkIsReadWhereItIs(t *testing.T) {
	m := NewMark(7)
	for _, row := range []struct {
		about string
		data  []byte
		want  Mark
	}{
		{"after a call", append([]byte("call"), m[:]...), m},
		{"alone", m[:], m},
		{"within", append(append([]byte("call"), m[:]...), 0), Mark{}},
		{"none", make([]byte, 68), Mark{}},
		{"short", m[1:], Mark{}},
		{"nothing", nil, Mark{}},
	} {
		if got := ParseMark(row.data); got != row.want {
			t.Errorf("%s: %x", row.about, got)
		}
	}
	if NewMark(8) == m {
		t.Error("two stores have one mark")
	}
}
