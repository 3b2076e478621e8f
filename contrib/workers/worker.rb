#!/usr/bin/env ruby
# A worker in Ruby, with nothing but its standard library, one task at a time:
#
#   STAYER_URL=https://tasks.example.org STAYER_TOKEN=stayer_… ruby worker.rb QUEUE PROGRAM [ARGUMENT …]
#
# The program gets the task's parameters as JSON on its standard input, and STAYER_TASK and
# STAYER_ATTEMPT. What it prints is the task's log, what it writes to the file $STAYER_RESULT (JSON)
# the result, and its exit code says how it ended.
#
# At least once, with fenced writes: see docs/reference/worker-protocol.md. STAYER_LEASE is in
# seconds (60).

require "json"
require "net/http"
require "securerandom"
require "socket"
require "tmpdir"

class LeaseLost < StandardError; end

# One life of the worker, under an id of its own.
class Session
  LEASE = Float(ENV.fetch("STAYER_LEASE", "60"))
  Task = Struct.new(:id, :attempt, :acknowledged, :pid, :why)

  def initialize(queue, program, folder)
    @queue, @program, @folder = queue, program, folder
    @base = "#{ENV.fetch("STAYER_URL")}/v1/work/#{Socket.gethostname.gsub(/[^\w.-]/, "-")}-#{SecureRandom.hex(6)}"
    @number, @over, @draining, @stopping, @running = 0, false, false, false, nil
  end

  attr_reader :draining

  def stop
    @stopping = true
  end

  def run
    beat
    lease = Thread.new { keep_lease }
    take until @over || @stopping || @draining
    raise LeaseLost if @over
    tell("POST", "/leave", { number: @number })
  ensure
    @over = true
    lease&.wakeup rescue nil
    kill("KILL")
  end

  private

  # A clock that goes on while the machine sleeps.
  def now = Process.clock_gettime(Process::CLOCK_BOOTTIME)

  # The status, and the answer. 0: there was none, it may have been done, so repeat it unchanged.
  def ask(method, path, body = nil, timeout: 30, type: "application/json")
    raise LeaseLost if @over
    uri = URI(@base + path)
    request = Net::HTTPGenericRequest.new(method, true, true, uri)
    request["Authorization"] = "Bearer #{ENV.fetch("STAYER_TOKEN")}"
    request["Content-Type"] = type
    request.body = type == "application/json" ? JSON.generate(body || {}) : body
    begin
      response = Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https",
                                 open_timeout: timeout, read_timeout: timeout, max_retries: 0) { |http| http.request(request) }
    rescue SystemCallError, IOError, Timeout::Error, SocketError, OpenSSL::SSL::SSLError, Net::ProtocolError
      return [0, nil]
    end
    answer = response.body.to_s.empty? ? nil : JSON.parse(response.body)
    raise LeaseLost if @over || (answer.is_a?(Hash) && answer["type"] == "urn:stayer:problem:lease-lost")
    status = response.code.to_i
    abort(answer["detail"]) if [400, 401, 403].include?(status)
    [status, answer]
  end

  # A request, until it is answered.
  def tell(*words, **options)
    loop do
      status, answer = ask(*words, **options)
      return [status, answer] unless status == 0 || status == 429 || status >= 500
      sleep 1
    end
  end

  def beat
    sent = now # the lease counts from before the beat was first sent
    task = @running
    named = task ? [{ id: task.id, attempt: task.attempt, acknowledged: task.acknowledged }] : []
    _, answer = tell("POST", "/beat", {
      protocol: 1, number: @number += 1, nonce: SecureRandom.hex(16), lease: LEASE, queues: [@queue], slots: 1,
      node: Socket.gethostname, pid: Process.pid, version: "worker.rb", handles: { names: ["*"], plain: true }, running: named
    }, timeout: LEASE / 4)
    @good_from = sent
    @draining ||= answer["drain"]
    return unless task
    end_task(task, "lost", "KILL") if answer["lost"].any? { |lost| lost["id"] == task.id }
    orders = answer["orders"].select { |each| each["id"] == task.id }.flat_map { |each| each["orders"] }
    return if orders.empty?
    task.acknowledged = orders.last["number"]
    end_task(task, "cancelled", "TERM") if orders.any? { |order| order["verb"] == "cancel" }
  end

  # Beats all the time. Stops what runs before the lease ends.
  def keep_lease
    guard = Thread.new do
      sleep LEASE / 40 until @over || now - @good_from > LEASE - [LEASE / 6, 10].min
      lose
    end
    until @over
      sleep LEASE / 8
      beat unless @over
    end
  rescue LeaseLost
    lose
  ensure
    guard&.join
  end

  def lose
    @over = true
    kill("KILL")
  end

  def end_task(task, why, signal)
    task.why ||= why
    kill(signal)
  end

  # The program and all that it started: it has a group of its own.
  def kill(signal)
    pid = @running&.pid
    Process.kill(signal, -pid) if pid
  rescue Errno::ESRCH
    nil
  end

  def take
    @key ||= SecureRandom.hex(16)
    wait = [30, LEASE / 8].min
    status, answer = ask("POST", "/take", { key: @key, limit: 1, wait: wait }, timeout: wait + 10)
    return sleep(1) unless status == 200 # and again with the same key: it returns the same tasks
    @key = nil
    answer["tasks"].each { |task| work(task) }
  end

  def work(task)
    @running = Task.new(task["id"], task["attempt"], 0, nil, nil)
    path = "/tasks/#{URI.encode_www_form_component(task["id"]).gsub("+", "%20")}"
    say = ->(verb, body = {}) { tell("POST", "#{path}/#{verb}?attempt=#{task["attempt"]}", body) }
    return unless say.call("start").first == 200
    result, log = File.join(@folder, "result"), File.join(@folder, "log")
    File.delete(result) if File.exist?(result)
    File.write(File.join(@folder, "input"), JSON.generate(task["parameters"]) + "\n")
    @running.pid = Process.spawn(
      { "STAYER_TASK" => task["id"], "STAYER_ATTEMPT" => task["attempt"].to_s, "STAYER_RESULT" => result },
      *@program, in: File.join(@folder, "input"), [:out, :err] => [log, "w"], pgroup: true
    )
    code = follow(path, task["attempt"], log)
    case @running.why
    when "lost" then nil
    when "cancelled" then say.call("cancelled")
    when "return" then say.call("return", { note: "the worker shuts down" })
    else
      if code == 0
        status, = say.call("complete", { result: File.exist?(result) ? JSON.parse(File.read(result)) : nil })
        say.call("fail", { error: { type: "TooLarge", message: "its result is too large" }, final: true }) if status == 413
      else
        say.call("fail", { error: { type: "ExitCode", message: "exit code #{code}", exit_code: code } })
      end
    end
  ensure
    kill("KILL")
    @running = nil
  end

  # Send its log while it runs, and all of it in the end; the exit code.
  def follow(path, attempt, log)
    sent, status, asked = 0, nil, nil
    loop do
      status ||= Process.wait2(@running.pid, Process::WNOHANG)&.last
      kill("KILL") if status # what it left behind
      if @stopping && !asked
        end_task(@running, "return", "TERM")
        asked = now
      elsif asked && now > asked + 10
        kill("KILL")
      end
      piece = File.binread(log, 500_000, sent).to_s
      if piece.empty?
        return status.exitstatus || 128 + status.termsig if status
        sleep 0.2
      else
        found, = tell("POST", "#{path}/log?attempt=#{attempt}&start=#{sent}", piece, type: "application/octet-stream")
        end_task(@running, "lost", "KILL") if found == 409
        sent += piece.bytesize
      end
    end
  end
end

queue, *program = ARGV
stopping = false
session = nil
%w[TERM INT].each { |name| trap(name) { stopping = true; session&.stop } }
Dir.mktmpdir("stayer") do |folder|
  until stopping || session&.draining
    session = Session.new(queue, program, folder)
    begin
      session.run
    rescue LeaseLost
      next
    end
  end
end
