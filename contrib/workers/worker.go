// A worker in Go, with nothing but its standard library, one task at a time:
//
//	STAYER_URL=https://tasks.example.org STAYER_TOKEN=stayer_… go run worker.go QUEUE PROGRAM [ARGUMENT …]
//
// The program gets the task's parameters as JSON on its standard input, and STAYER_TASK and
// STAYER_ATTEMPT. What it prints is the task's log, what it writes to the file $STAYER_RESULT (JSON)
// the result, and its exit code says how it ended.
//
// At least once, with fenced writes: see docs/reference/worker-protocol.md. STAYER_LEASE is in
// seconds (60).
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"
)

var errLeaseLost = errors.New("the lease is lost")

type order struct {
	Number int
	Verb   string
}

type answer struct {
	Type, Detail string
	Drain        bool
	Tasks        []task
	Lost         []struct{ ID string }
	Orders       []struct {
		ID     string
		Orders []order
	}
}

type task struct {
	ID         string
	Attempt    int
	Parameters json.RawMessage
}

// running is the task of this moment.
type running struct {
	task
	acknowledged int
	pid          int    // of its group
	why          string // it is stopped: lost, cancelled, return
}

// session is one life of the worker, under an id of its own.
type session struct {
	base, queue, folder string
	program             []string
	lease               time.Duration
	stopping            <-chan struct{}
	over                context.Context
	end                 context.CancelFunc
	mutex               sync.Mutex // of what follows
	number              int
	goodFrom            time.Time
	running             *running
	draining            bool
}

func random() string {
	bytes := make([]byte, 16)
	rand.Read(bytes)
	return hex.EncodeToString(bytes)
}

// ask sends one request. Status 0: there was no answer, it may have been done, so repeat it unchanged.
func (s *session) ask(path string, body any, timeout time.Duration) (int, answer, error) {
	kind, content := "application/json", []byte(nil)
	if raw, is := body.([]byte); is {
		kind, content = "application/octet-stream", raw
	} else {
		content, _ = json.Marshal(body)
	}
	limit, cancel := context.WithTimeout(s.over, timeout)
	defer cancel()
	request, _ := http.NewRequestWithContext(limit, "POST", s.base+path, bytes.NewReader(content))
	request.Header.Set("Authorization", "Bearer "+os.Getenv("STAYER_TOKEN"))
	request.Header.Set("Content-Type", kind)
	response, err := http.DefaultClient.Do(request)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if s.over.Err() != nil {
		return 0, answer{}, errLeaseLost
	}
	if err != nil {
		return 0, answer{}, nil
	}
	var found answer
	json.Unmarshal(text, &found)
	switch {
	case found.Type == "urn:stayer:problem:lease-lost":
		return 0, found, errLeaseLost
	case response.StatusCode == 400, response.StatusCode == 401, response.StatusCode == 403:
		return 0, found, errors.New(found.Detail)
	}
	return response.StatusCode, found, nil
}

// tell sends a request until it is answered.
func (s *session) tell(path string, body any, timeout time.Duration) (int, answer, error) {
	for {
		status, found, err := s.ask(path, body, timeout)
		if err != nil || (status != 0 && status != 429 && status < 500) {
			return status, found, err
		}
		time.Sleep(time.Second)
	}
}

func (s *session) beat() error {
	sent := time.Now() // the lease counts from before the beat was first sent
	s.mutex.Lock()
	s.number++
	named := []map[string]any{}
	if s.running != nil {
		named = append(named, map[string]any{"id": s.running.ID, "attempt": s.running.Attempt, "acknowledged": s.running.acknowledged})
	}
	host, _ := os.Hostname()
	body := map[string]any{
		"protocol": 1, "number": s.number, "nonce": random(), "lease": s.lease.Seconds(), "queues": []string{s.queue}, "slots": 1,
		"node": host, "pid": os.Getpid(), "version": "worker.go", "handles": map[string]any{"names": []string{"*"}, "plain": true},
		"running": named,
	}
	s.mutex.Unlock()
	_, found, err := s.tell("/beat", body, s.lease/4)
	if err != nil {
		return err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.goodFrom = sent
	s.draining = s.draining || found.Drain
	if s.running == nil {
		return nil
	}
	for _, lost := range found.Lost {
		if lost.ID == s.running.ID {
			s.stop("lost", syscall.SIGKILL)
		}
	}
	for _, each := range found.Orders {
		if each.ID != s.running.ID {
			continue
		}
		for _, order := range each.Orders {
			s.running.acknowledged = max(s.running.acknowledged, order.Number)
			if order.Verb == "cancel" {
				s.stop("cancelled", syscall.SIGTERM)
			}
		}
	}
	return nil
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// stop ends the program and all that it started. The mutex is held.
func (s *session) stop(why string, signal syscall.Signal) {
	if s.running == nil {
		return
	}
	if s.running.why == "" {
		s.running.why = why
	}
	if s.running.pid != 0 {
		syscall.Kill(-s.running.pid, signal)
	}
}

// keepLease beats all the time, and stops what runs before the lease ends.
func (s *session) keepLease() {
	go func() {
		for s.over.Err() == nil {
			time.Sleep(s.lease / 8)
			if s.over.Err() == nil && s.beat() != nil {
				s.lose()
			}
		}
	}()
	margin := s.lease / 6
	if margin > 10*time.Second {
		margin = 10 * time.Second
	}
	for s.over.Err() == nil {
		time.Sleep(s.lease / 40)
		s.mutex.Lock()
		left := s.lease - margin - time.Since(s.goodFrom)
		if wall := s.lease - margin - time.Now().Round(0).Sub(s.goodFrom.Round(0)); wall < left {
			left = wall // this clock goes on while the machine sleeps
		}
		s.mutex.Unlock()
		if left <= 0 {
			s.lose()
		}
	}
}

func (s *session) lose() {
	s.mutex.Lock()
	s.stop("lost", syscall.SIGKILL)
	s.mutex.Unlock()
	s.end()
}

func (s *session) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

func (s *session) run() error {
	defer s.lose()
	if err := s.beat(); err != nil {
		return err
	}
	go s.keepLease()
	key := random()
	for !s.isStopping() && !s.draining {
		wait := s.lease / 8
		if wait > 30*time.Second {
			wait = 30 * time.Second
		}
		status, found, err := s.ask("/take", map[string]any{"key": key, "limit": 1, "wait": wait.Seconds()}, wait+10*time.Second)
		if err != nil {
			return err
		}
		if status != 200 {
			time.Sleep(time.Second) // and again with the same key: it returns the same tasks
			continue
		}
		key = random()
		for _, each := range found.Tasks {
			if err := s.work(each); err != nil {
				return err
			}
		}
	}
	_, _, err := s.tell("/leave", map[string]any{"number": s.number}, 30*time.Second)
	return err
}

func (s *session) work(given task) error {
	now := &running{task: given}
	s.mutex.Lock()
	s.running = now
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		s.stop("", syscall.SIGKILL)
		s.running = nil
		s.mutex.Unlock()
	}()
	path := func(verb string) string {
		return fmt.Sprintf("/tasks/%s/%s?attempt=%d", url.PathEscape(given.ID), verb, given.Attempt)
	}
	say := func(verb string, body any) (int, error) {
		status, _, err := s.tell(path(verb), body, 30*time.Second)
		return status, err
	}
	none := map[string]any{}
	if status, err := say("start", none); err != nil || status != 200 {
		return err
	}
	code, err := s.execute(now, path("log"))
	if err != nil {
		return err
	}
	s.mutex.Lock()
	why := now.why
	s.mutex.Unlock()
	switch {
	case why == "lost":
	case why == "cancelled":
		_, err = say("cancelled", none)
	case why == "return":
		_, err = say("return", map[string]any{"note": "the worker shuts down"})
	case code == 0:
		result, missing := os.ReadFile(filepath.Join(s.folder, "result"))
		if missing != nil || !json.Valid(result) {
			result = []byte("null")
		}
		status := 0
		status, err = say("complete", map[string]any{"result": json.RawMessage(result)})
		if status == 413 {
			fault := map[string]any{"type": "TooLarge", "message": "its result is too large"}
			_, err = say("fail", map[string]any{"error": fault, "final": true})
		}
	default:
		fault := map[string]any{"type": "ExitCode", "message": fmt.Sprintf("exit code %d", code), "exit_code": code}
		_, err = say("fail", map[string]any{"error": fault})
	}
	return err
}

// execute runs the program, and sends its log while it runs.
func (s *session) execute(now *running, path string) (int, error) {
	result, name := filepath.Join(s.folder, "result"), filepath.Join(s.folder, "log")
	os.Remove(result)
	log, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	command := exec.Command(s.program[0], s.program[1:]...)
	command.Stdin = bytes.NewReader(append(append([]byte{}, now.Parameters...), '\n'))
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Env = append(os.Environ(), "STAYER_TASK="+now.ID, "STAYER_ATTEMPT="+strconv.Itoa(now.Attempt), "STAYER_RESULT="+result)
	if err := command.Start(); err != nil {
		fmt.Fprintln(log, err)
		return 127, nil
	}
	s.mutex.Lock()
	now.pid = command.Process.Pid
	if now.why != "" {
		s.stop(now.why, syscall.SIGKILL)
	}
	s.mutex.Unlock()
	ended := make(chan struct{})
	go func() {
		command.Wait()
		close(ended)
	}()
	stopping, kill, isOver, sent := s.stopping, (<-chan time.Time)(nil), false, int64(0)
	buffer := make([]byte, 500_000)
	for {
		select {
		case <-ended:
			isOver, ended = true, nil
			syscall.Kill(-now.pid, syscall.SIGKILL) // what it left behind
		case <-stopping:
			stopping, kill = nil, time.After(10*time.Second)
			s.mutex.Lock()
			s.stop("return", syscall.SIGTERM)
			s.mutex.Unlock()
		case <-kill:
			syscall.Kill(-now.pid, syscall.SIGKILL)
		case <-time.After(200 * time.Millisecond):
		}
		for {
			file, err := os.Open(name)
			if err != nil {
				return 0, err
			}
			count, _ := file.ReadAt(buffer, sent)
			file.Close()
			if count == 0 {
				break
			}
			status, _, err := s.tell(fmt.Sprintf("%s&start=%d", path, sent), buffer[:count], 30*time.Second)
			if err != nil {
				return 0, err
			}
			if status == 409 {
				s.mutex.Lock()
				s.stop("lost", syscall.SIGKILL)
				s.mutex.Unlock()
			}
			sent += int64(count)
		}
		if isOver {
			if code := command.ProcessState.ExitCode(); code >= 0 {
				return code, nil
			}
			return 128 + int(command.ProcessState.Sys().(syscall.WaitStatus).Signal()), nil
		}
	}
}

func main() {
	lease := 60.0
	if text := os.Getenv("STAYER_LEASE"); text != "" {
		lease, _ = strconv.ParseFloat(text, 64)
	}
	folder, err := os.MkdirTemp("", "stayer")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	host, _ := os.Hostname()
	host = regexp.MustCompile(`[^\w.-]`).ReplaceAllString(host, "-")
	for stop.Err() == nil {
		over, end := context.WithCancel(context.Background())
		life := &session{
			base:  fmt.Sprintf("%s/v1/work/%s-%s", os.Getenv("STAYER_URL"), host, random()[:12]),
			queue: os.Args[1], program: os.Args[2:], folder: folder, lease: time.Duration(lease * float64(time.Second)),
			stopping: stop.Done(), over: over, end: end,
		}
		err := life.run()
		if err != nil && err != errLeaseLost {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if life.draining {
			return
		}
	}
}
