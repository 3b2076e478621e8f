<?php
// A worker in PHP for the command line (with its extensions pcntl and posix), one task at a time:
//
//   STAYER_URL=https://tasks.example.org STAYER_TOKEN=stayer_… php worker.php QUEUE PROGRAM [ARGUMENT …]
//
// The program gets the task's parameters as JSON on its standard input, and STAYER_TASK and
// STAYER_ATTEMPT. What it prints is the task's log, what it writes to the file $STAYER_RESULT (JSON)
// the result, and its exit code says how it ended.
//
// At least once, with fenced writes: see docs/reference/worker-protocol.md. STAYER_LEASE is in
// seconds (60).

class LeaseLost extends Exception {}

final class Session
{
    private string $base;
    private float $lease;
    private int $number = 0;
    private ?string $beat = null;          // one that was not answered yet
    private float $sent = 0, $goodFrom = 0, $nextBeat = 0;
    private ?array $running = null;        // id, attempt, acknowledged, pid, why
    private ?string $key = null;
    public bool $draining = false;
    public static bool $stopping = false;

    public function __construct(private string $queue, private array $program, private string $folder)
    {
        $this->lease = (float) (getenv('STAYER_LEASE') ?: 60);
        $host = preg_replace('/[^\w.-]/', '-', gethostname());
        $this->base = getenv('STAYER_URL') . "/v1/work/$host-" . bin2hex(random_bytes(6));
    }

    public function run(): void
    {
        try {
            $this->tick();
            while (!self::$stopping && !$this->draining) {
                $this->take();
            }
            $this->tell('/leave', ['number' => $this->number]);
        } finally {
            $this->kill(SIGKILL);
        }
    }

    /** Seconds since boot, with those asleep: nobody sets this clock. */
    private function now(): float
    {
        return (float) file_get_contents('/proc/uptime');
    }

    /** The status, and the answer. 0: there was none, it may have been done, so repeat it unchanged. */
    private function ask(string $path, $body, float $timeout = 30, string $type = 'application/json'): array
    {
        if ($this->goodFrom) { // never past the moment at which everything has to stop
            $left = $this->goodFrom + $this->lease - min($this->lease / 6, 10) - $this->now();
            $timeout = max(0.1, min($timeout, $left));
        }
        $content = $type === 'application/json' ? json_encode($body ?: new stdClass) : $body;
        $text = @file_get_contents($this->base . $path, false, stream_context_create(['http' => [
            'method' => 'POST', 'content' => $content, 'timeout' => $timeout, 'ignore_errors' => true,
            'header' => ['Authorization: Bearer ' . getenv('STAYER_TOKEN'), "Content-Type: $type", 'Connection: close'],
        ]]));
        if ($text === false || !preg_match('/ (\d{3})/', $http_response_header[0] ?? '', $found)) {
            return [0, null];
        }
        $answer = json_decode($text, true);
        if (($answer['type'] ?? '') === 'urn:stayer:problem:lease-lost') {
            throw new LeaseLost();
        }
        if (in_array($found[1], ['400', '401', '403'])) {
            throw new RuntimeException($answer['detail']);
        }
        return [(int) $found[1], $answer];
    }

    /** A request, until it is answered. Beats go on. */
    private function tell(string $path, $body, string $type = 'application/json'): int
    {
        for (;;) {
            [$status] = $this->ask($path, $body, $this->lease / 8, $type);
            if ($status !== 0 && $status !== 429 && $status < 500) {
                return $status;
            }
            $this->tick();
            usleep(500_000);
        }
    }

    /** Beat if it is time to, and stop everything before the lease ends. */
    private function tick(): void
    {
        pcntl_signal_dispatch();
        if ($this->goodFrom && $this->now() - $this->goodFrom > $this->lease - min($this->lease / 6, 10)) {
            throw new LeaseLost();
        }
        if ($this->beat === null) {
            if ($this->now() < $this->nextBeat) {
                return;
            }
            $this->sent = $this->now(); // the lease counts from before the beat was first sent
            $named = array_intersect_key($this->running ?? [], array_flip(['id', 'attempt', 'acknowledged']));
            $this->beat = json_encode([
                'protocol' => 1, 'number' => ++$this->number, 'nonce' => bin2hex(random_bytes(16)), 'lease' => $this->lease,
                'queues' => [$this->queue], 'slots' => 1, 'node' => gethostname(), 'pid' => getmypid(),
                'version' => 'worker.php', 'handles' => ['names' => ['*'], 'plain' => true],
                'running' => $named ? [$named] : [],
            ]);
        }
        [$status, $answer] = $this->ask('/beat', json_decode($this->beat), $this->lease / 4);
        if ($status !== 200) {
            if ($this->goodFrom === 0.0) {
                sleep(1); // nothing runs yet
                $this->tick();
            }
            return; // the same again, at the next tick
        }
        [$this->beat, $this->goodFrom, $this->nextBeat] = [null, $this->sent, $this->sent + $this->lease / 8];
        $this->draining = $this->draining || $answer['drain'];
        if ($this->running === null) {
            return;
        }
        foreach ($answer['lost'] as $lost) {
            if ($lost['id'] === $this->running['id']) {
                $this->stop('lost', SIGKILL);
            }
        }
        foreach ($answer['orders'] as $each) {
            foreach ($each['id'] === $this->running['id'] ? $each['orders'] : [] as $order) {
                $this->running['acknowledged'] = max($order['number'], $this->running['acknowledged']);
                if ($order['verb'] === 'cancel') {
                    $this->stop('cancelled', SIGTERM);
                }
            }
        }
    }

    private function stop(string $why, int $signal): void
    {
        $this->running['why'] ??= $why;
        $this->running['stopped'] ??= $this->now();
        $this->kill($signal);
    }

    /** The program and all that it started: it has a session of its own. */
    private function kill(int $signal): void
    {
        if ($this->running['pid'] ?? null) {
            posix_kill(-$this->running['pid'], $signal);
        }
    }

    private function take(): void
    {
        $this->tick();
        $this->key ??= bin2hex(random_bytes(16));
        $wait = min(30, $this->lease / 8);
        [$status, $answer] = $this->ask('/take', ['key' => $this->key, 'limit' => 1, 'wait' => $wait], $wait + 10);
        if ($status !== 200) {
            usleep(500_000); // and again with the same key: it returns the same tasks
            return;
        }
        $this->key = null;
        foreach ($answer['tasks'] as $task) {
            $this->work($task);
        }
    }

    private function work(array $task): void
    {
        $this->running = ['id' => $task['id'], 'attempt' => $task['attempt'], 'acknowledged' => 0];
        $path = fn (string $verb) => '/tasks/' . rawurlencode($task['id']) . "/$verb?attempt={$task['attempt']}";
        if ($this->tell($path('start'), []) === 200) {
            $code = $this->execute($task, $path('log'));
            $result = @json_decode(@file_get_contents("$this->folder/result"));
            match ($this->running['why'] ?? null) {
                'lost' => null,
                'cancelled' => $this->tell($path('cancelled'), []),
                'return' => $this->tell($path('return'), ['note' => 'the worker shuts down']),
                default => $code === 0
                    ? $this->tell($path('complete'), ['result' => $result]) === 413
                        && $this->tell($path('fail'), ['error' => ['type' => 'TooLarge', 'message' => 'its result is too large'], 'final' => true])
                    : $this->tell($path('fail'), ['error' => ['type' => 'ExitCode', 'message' => "exit code $code", 'exit_code' => $code]]),
            };
        }
        $this->kill(SIGKILL);
        $this->running = null;
    }

    /** Run the program, and send its log while it runs; its exit code. */
    private function execute(array $task, string $path): int
    {
        @unlink("$this->folder/result");
        file_put_contents("$this->folder/input", json_encode($task['parameters']) . "\n");
        $variables = ['STAYER_TASK' => $task['id'], 'STAYER_ATTEMPT' => $task['attempt'], 'STAYER_RESULT' => "$this->folder/result"];
        $process = proc_open(
            ['setsid', ...$this->program],
            [['file', "$this->folder/input", 'r'], ['file', "$this->folder/log", 'w'], ['redirect', 1]],
            $pipes, null, array_map('strval', $variables + getenv()),
        );
        $this->running['pid'] = proc_get_status($process)['pid'];
        $sent = 0;
        $code = null;
        for (;;) {
            $this->tick();
            if (self::$stopping && !isset($this->running['stopped'])) {
                $this->stop('return', SIGTERM);
            } elseif (($this->running['stopped'] ?? INF) + 10 < $this->now()) {
                $this->kill(SIGKILL);
            }
            if ($code === null && !($status = proc_get_status($process))['running']) {
                $code = $status['signaled'] ? 128 + $status['termsig'] : $status['exitcode'];
                $this->kill(SIGKILL); // what it left behind
            }
            $piece = file_get_contents("$this->folder/log", false, null, $sent, 500_000);
            if ($piece !== '') {
                if ($this->tell("$path&start=$sent", $piece, 'application/octet-stream') === 409) {
                    $this->stop('lost', SIGKILL);
                }
                $sent += strlen($piece);
            } elseif ($code !== null) {
                return $code;
            } else {
                usleep(200_000);
            }
        }
    }
}

$queue = $argv[1];
$folder = sys_get_temp_dir() . '/stayer-' . bin2hex(random_bytes(8));
mkdir($folder, 0700);
foreach ([SIGTERM, SIGINT] as $signal) {
    pcntl_signal($signal, function () { Session::$stopping = true; });
}
do {
    $session = new Session($queue, array_slice($argv, 2), $folder);
    try {
        $session->run();
    } catch (LeaseLost) {
        // others may have what it ran: begin anew
    }
} while (!Session::$stopping && !$session->draining);
array_map('unlink', glob("$folder/*"));
rmdir($folder);
