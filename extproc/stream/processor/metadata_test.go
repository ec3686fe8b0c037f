package processor

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestMetadataEqualsTheGeneratedCodes(t *testing.T) {
	group := func(name string) any {
		return map[string]any{"name": name, "clusters": []any{map[string]any{"cluster_name": name, "weight": 1}}}
	}
	tests := []struct {
		name string
		got  *structpb.Struct
		want map[string]any
	}{
		{
			"one attempt", encoded(orderMetadata("req_1", []string{"p:openai"})),
			map[string]any{"bardo": map[string]any{"exchange": "req_1"}, "bardo.order": map[string]any{"priority_groups": []any{group("p:openai")}}},
		},
		{
			"several, with long names", encoded(orderMetadata(strings.Repeat("x", 300), []string{"p:a", strings.Repeat("long", 100), "ü"})),
			map[string]any{
				"bardo":       map[string]any{"exchange": strings.Repeat("x", 300)},
				"bardo.order": map[string]any{"priority_groups": []any{group("p:a"), group(strings.Repeat("long", 100)), group("ü")}},
			},
		},
		{
			"none", encoded(orderMetadata("", nil)),
			map[string]any{"bardo": map[string]any{"exchange": ""}, "bardo.order": map[string]any{"priority_groups": []any{}}},
		},
		{"a length", lengthMetadata("1234"), map[string]any{"bardo": map[string]any{"content_length": "1234"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want, err := structpb.NewStruct(tt.want)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := proto.Marshal(tt.got)
			if err != nil {
				t.Fatal(err)
			}
			got := &structpb.Struct{}
			if err := proto.Unmarshal(raw, got); err != nil || !proto.Equal(got, want) {
				t.Errorf("got %v, want %v: %v", got, want, err)
			}
		})
	}
}

func BenchmarkOrderMetadata(b *testing.B) {
	for _, n := range []int{1, 3} {
		groups := make([]string, n)
		for i := range groups {
			groups[i] = fmt.Sprint("provider:candidate-", i)
		}
		b.Run(fmt.Sprint(n, " candidates"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := proto.Marshal(encoded(orderMetadata("req_0123456789abcdefghjkmnpq", groups))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
