package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"bardo.money/gateway/cmd/bardo/cli"
)

// member is a member of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of a JSON object, in order.
func members(object json.RawMessage) (out []member, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object: %.40s", object)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: fmt.Sprint(name)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// printRecord prints a record: a line for each member, and lists of objects, such as its attempts, as tables. Unknown members are printed too.
func printRecord(w io.Writer, record json.RawMessage) error {
	all, err := members(record)
	if err != nil {
		return err
	}
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var tables []member
	for _, m := range all {
		if isObjects(m.value) {
			tables = append(tables, m)
			continue
		}
		if text := plain(m.value); text != "" {
			if _, err := fmt.Fprintf(lines, "%s\t%s\n", title(m.name), cli.Printable(text)); err != nil {
				return err
			}
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	for _, t := range tables {
		if err := printObjects(w, t); err != nil {
			return err
		}
	}
	return nil
}

// title is a member's name with spaces.
func title(name string) string { return strings.ReplaceAll(name, "_", " ") }

// isObjects reports whether a value is a non-empty list of objects.
func isObjects(value json.RawMessage) bool {
	var list []map[string]any
	return json.Unmarshal(value, &list) == nil && len(list) > 0
}

// plain formats a value: lists and objects on one line, "" for null.
func plain(value json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(value)
	}
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		words := make([]string, len(v))
		for i := range v {
			words[i] = fmt.Sprint(v[i])
		}
		return strings.Join(words, ", ")
	case map[string]any:
		return plainObject(value)
	}
	return fmt.Sprint(v)
}

func plainObject(object json.RawMessage) string {
	all, err := members(object)
	if err != nil {
		return string(object)
	}
	words := make([]string, len(all))
	for i, m := range all {
		words[i] = title(m.name) + " " + plain(m.value)
	}
	return strings.Join(words, "; ")
}

// printObjects prints a list of objects as a table, with a column for each member of any of them.
func printObjects(w io.Writer, t member) error {
	var list []json.RawMessage
	if err := json.Unmarshal(t.value, &list); err != nil {
		return err
	}
	var names []string
	rows := make([]map[string]string, len(list))
	for i, object := range list {
		all, err := members(object)
		if err != nil {
			return err
		}
		rows[i] = map[string]string{}
		for _, m := range all {
			if !slices.Contains(names, m.name) {
				names = append(names, m.name)
			}
			rows[i][m.name] = plain(m.value)
		}
	}
	if _, err := fmt.Fprintf(w, "\n%s\n", title(t.name)); err != nil {
		return err
	}
	return cli.PrintTable(w, headsOf(names), cellsOf(names, rows))
}

func headsOf(names []string) []string {
	heads := make([]string, len(names))
	for i, name := range names {
		heads[i] = strings.ToUpper(title(name))
	}
	return heads
}

func cellsOf(names []string, rows []map[string]string) [][]string {
	cells := make([][]string, len(rows))
	for i, row := range rows {
		for _, name := range names {
			cells[i] = append(cells[i], row[name])
		}
	}
	return cells
}
