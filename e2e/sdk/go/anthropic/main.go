// The official Anthropic SDK for Go.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"bardo.money/gateway/e2e/sdk/go/driver"
)

func main() {
	t, err := driver.Open()
	if err == nil {
		err = t.Run("github.com/anthropics/anthropic-sdk-go", sdk{t}.cases())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type sdk struct{ driver.Target }

func (s sdk) cases() []driver.Case {
	return append([]driver.Case{
		driver.Do("chat", s.chat), driver.Do("stream", s.stream), driver.Do("base-url", s.baseURL), driver.Do("tools", s.tools),
		driver.Do("tools-stream", s.toolsStream), driver.Do("loop", s.loop), driver.Do("thinks", s.thinks), driver.Do("unicode", s.unicode),
		driver.Do("unicode-tools", s.unicodeTools), driver.Do("large", s.large), driver.Do("retry", s.retry), driver.Do("cancel", s.cancel),
		driver.Do("heartbeat", s.heartbeat("quiet")), driver.Do("heartbeat2", s.heartbeat("quiet2")),
		{Name: "dies", Run: s.dies("dies")},
		{Name: "dies2", Run: s.dies("dies2")},
	}, s.Errors(s.refused)...)
}

func (s sdk) client(more ...option.RequestOption) anthropic.Client {
	return anthropic.NewClient(append([]option.RequestOption{
		option.WithBaseURL(s.URL), option.WithAPIKey(s.Key), option.WithMaxRetries(0),
	}, more...)...)
}

func (s sdk) ask(behaviour string, messages ...anthropic.MessageParam) anthropic.MessageNewParams {
	if messages == nil {
		messages = []anthropic.MessageParam{user("hi")}
	}
	return anthropic.MessageNewParams{Model: s.Model(behaviour), MaxTokens: 100, Messages: messages}
}

func user(text string) anthropic.MessageParam {
	return anthropic.NewUserMessage(anthropic.NewTextBlock(text))
}

func withTools(p anthropic.MessageNewParams) anthropic.MessageNewParams {
	p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
		Name: driver.Tool, Description: anthropic.String(driver.Description),
		InputSchema: anthropic.ToolInputSchemaParam{Properties: driver.Schema["properties"], Required: []string{"city"}},
	}}}
	return p
}

func (s sdk) create(ctx context.Context, p anthropic.MessageNewParams, more ...option.RequestOption) (*anthropic.Message, error) {
	c := s.client(more...)
	m, err := c.Messages.New(ctx, p)
	if err != nil {
		return &anthropic.Message{}, err
	}
	return m, nil
}

// read returns what a stream adds up to, as far as it came.
func (s sdk) read(ctx context.Context, p anthropic.MessageNewParams) (*anthropic.Message, error) {
	c := s.client()
	stream := c.Messages.NewStreaming(ctx, p)
	defer stream.Close()
	var m anthropic.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			return &m, fmt.Errorf("an event does not fit those before: %w", err)
		}
	}
	return &m, stream.Err()
}

func says(m *anthropic.Message, want string) error {
	var text strings.Builder
	for _, b := range m.Content {
		if b.Type == "text" {
			text.WriteString(b.Text)
		}
	}
	return driver.Same(text.String(), want)
}

func calls(m *anthropic.Message, cities ...string) error {
	var got []driver.Call
	for _, b := range m.Content {
		if b.Type == "tool_use" {
			got = append(got, driver.Call{ID: b.ID, Name: b.Name, Args: string(b.Input)})
		}
	}
	return errors.Join(driver.Same(m.StopReason, "tool_use"), driver.Calls(got, cities...))
}

func (s sdk) hello(m *anthropic.Message) error {
	return errors.Join(says(m, driver.Hello), driver.Same(m.StopReason, "end_turn"), driver.Same(m.Model, s.Model("chat")),
		driver.Same(m.Usage.OutputTokens, 5), driver.Same(m.Usage.InputTokens > 0, true))
}

func (s sdk) chat(ctx context.Context) error {
	m, err := s.create(ctx, s.ask("chat"))
	return errors.Join(err, s.hello(m))
}

func (s sdk) stream(ctx context.Context) error {
	m, err := s.read(ctx, s.ask("chat"))
	return errors.Join(err, s.hello(m))
}

func (s sdk) baseURL(ctx context.Context) error {
	m, err := s.create(ctx, s.ask("chat"), option.WithBaseURL(s.URL+"/v1"))
	return errors.Join(err, s.hello(m))
}

func (s sdk) tools(ctx context.Context) error {
	m, err := s.create(ctx, withTools(s.ask("tools")))
	return errors.Join(err, says(m, driver.See), calls(m, "Paris", "Rome"))
}

func (s sdk) toolsStream(ctx context.Context) error {
	m, err := s.read(ctx, withTools(s.ask("tools")))
	return errors.Join(err, says(m, driver.See), calls(m, "Paris", "Rome"))
}

func (s sdk) loop(ctx context.Context) error {
	call, err := s.create(ctx, withTools(s.ask("loop")))
	if err := errors.Join(err, calls(call, "Paris")); err != nil {
		return err
	}
	result := anthropic.NewUserMessage(anthropic.NewToolResultBlock(call.Content[len(call.Content)-1].ID, "sunny", false))
	return s.both(ctx, withTools(s.ask("loop", user("hi"), call.ToParam(), result)), func(m *anthropic.Message) error {
		return says(m, driver.Sunny)
	})
}

func (s sdk) thinks(ctx context.Context) error {
	thinking := func(messages ...anthropic.MessageParam) anthropic.MessageNewParams {
		p := s.ask("thinks", messages...)
		p.Thinking, p.MaxTokens = anthropic.ThinkingConfigParamOfEnabled(1024), 4096
		return p
	}
	var first *anthropic.Message
	err := s.both(ctx, thinking(), func(m *anthropic.Message) error {
		if first = m; len(m.Content) != 2 {
			return fmt.Errorf("%d blocks", len(m.Content))
		}
		return errors.Join(driver.Same(m.Content[0].Thinking, driver.Thought), says(m, driver.Hello))
	})
	if err != nil {
		return err
	}
	again, err := s.create(ctx, thinking(user("hi"), first.ToParam(), user("hi")))
	return errors.Join(err, says(again, driver.Hello))
}

// both asks for a whole answer and for a stream, and checks both.
func (s sdk) both(ctx context.Context, p anthropic.MessageNewParams, check func(*anthropic.Message) error) error {
	whole, err := s.create(ctx, p)
	if err := errors.Join(err, check(whole)); err != nil {
		return err
	}
	streamed, err := s.read(ctx, p)
	return errors.Join(err, check(streamed))
}

func (s sdk) unicode(ctx context.Context) error {
	return s.both(ctx, s.ask("unicode", user(s.Unicode)), func(m *anthropic.Message) error { return says(m, s.Unicode) })
}

func (s sdk) unicodeTools(ctx context.Context) error {
	return s.both(ctx, withTools(s.ask("unicode-tools")), func(m *anthropic.Message) error { return calls(m, s.Unicode) })
}

func (s sdk) large(ctx context.Context) error {
	return s.both(ctx, s.ask("large", user(driver.Prompt())), func(m *anthropic.Message) error {
		return driver.Same(len(m.Content[0].Text), driver.Large)
	})
}

func (s sdk) retry(ctx context.Context) error {
	m, err := s.create(ctx, s.ask("retry"), option.WithMaxRetries(1))
	return errors.Join(err, says(m, driver.Hello))
}

func (s sdk) cancel(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	c := s.client()
	stream := c.Messages.NewStreaming(ctx, s.ask("slow"))
	defer stream.Close()
	for stream.Next() {
		if stream.Current().Type == "content_block_delta" {
			return nil
		}
	}
	return fmt.Errorf("it ended without a token: %w", stream.Err())
}

func (s sdk) heartbeat(behaviour string) func(context.Context) error {
	return func(ctx context.Context) error {
		m, err := s.read(ctx, s.ask(behaviour))
		return errors.Join(err, says(m, driver.Tokens))
	}
}

func (s sdk) dies(behaviour string) func(context.Context) (driver.Raised, error) {
	return func(ctx context.Context) (driver.Raised, error) {
		m, err := s.read(ctx, s.ask(behaviour))
		if err == nil {
			return driver.Raised{}, errors.New("nothing was raised")
		}
		return driver.Raised{Exception: fmt.Sprintf("%T", err)}, says(m, driver.Tokens)
	}
}

// refused is what is raised for a request that is refused.
func (s sdk) refused(ctx context.Context, key, model string, stream bool) (driver.Raised, error) {
	c := s.client(option.WithAPIKey(key))
	p := anthropic.MessageNewParams{Model: model, MaxTokens: 100, Messages: []anthropic.MessageParam{user("hi")}}
	var err error
	if stream {
		answer := c.Messages.NewStreaming(ctx, p)
		defer answer.Close()
		answer.Next()
		err = answer.Err()
	} else {
		_, err = c.Messages.New(ctx, p)
	}
	var e *anthropic.Error
	if !errors.As(err, &e) {
		return driver.Raised{}, fmt.Errorf("raised %T: %w", err, err)
	}
	return driver.Raised{Exception: fmt.Sprintf("%T", e), Status: e.StatusCode}, nil
}
