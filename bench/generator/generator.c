/*
 * Puts requests on servers that differ in the number of their document only, over connections of which each has one request
 * under way. Every reply is checked: it has the status, it is whole, and it names the document.
 *
 *   generator CONNECTIONS MILLISECONDS STATUS DOCUMENTS FIRST ADDRESSES TEMPLATE...
 *
 * Numbers are any below DOCUMENTS, or, where that is 0, FIRST and those after it. Addresses have commas between them. Templates
 * are used in turn. Prints how many requests were answered, in how many seconds, and its own processor seconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Stands in templates where the number of the document belongs. */
#define PLACEHOLDER "987654321"
#define DIGITS 9
#define REPLY_BYTES (64 * 1024)
#define REQUEST_BYTES (16 * 1024)
#define ADDRESSES 64
#define EVENTS 128
/*
 * Replies gather for so long before the next requests are sent, where there are some connections: who wakes for each reply
 * takes twice the processor time. Servers have the requests of all other connections meanwhile.
 */
#define GATHER_MICROSECONDS 200
#define GATHERING_CONNECTIONS 8
#define SILENCE_MILLISECONDS 30000

struct connection {
  int socket;
  size_t received;
  char number[DIGITS + 1];
  char reply[REPLY_BYTES + 1];
};

static int status, template_count;
static char **templates;
static uint64_t documents, next_number, turn, random_state = 88172645463325252u;

static void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static double processor_seconds(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return use.ru_utime.tv_sec + use.ru_stime.tv_sec + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static uint64_t any(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static int connected(const char *address) {
  char host[64];
  int port, one = 1;
  struct sockaddr_in place = {.sin_family = AF_INET};
  if (sscanf(address, "%63[0-9.]:%d", host, &port) != 2 || inet_pton(AF_INET, host, &place.sin_addr) != 1)
    fail("%s is not an IPv4 address with a port.", address);
  place.sin_port = htons(port);
  int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0 || connect(made, (struct sockaddr *)&place, sizeof place) != 0) fail("No connection to %s: %m", address);
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return made;
}

static void ask(struct connection *connection) {
  const char *template = templates[turn++ % template_count];
  char request[REQUEST_BYTES];
  size_t length = strlen(template);
  if (length >= sizeof request) fail("A request is too long.");
  memcpy(request, template, length + 1);
  uint64_t number = documents > 0 ? any() % documents : next_number++;
  snprintf(connection->number, sizeof connection->number, "%0*u", DIGITS, (unsigned)number);
  for (char *at = request; (at = strstr(at, PLACEHOLDER)); at += DIGITS) memcpy(at, connection->number, DIGITS);
  connection->received = 0;
  if (send(connection->socket, request, length, MSG_NOSIGNAL) != (ssize_t)length) fail("A request was not sent: %m");
}

/* Whether a reply is whole. Fails where it is not the right one. */
static int answered(struct connection *connection) {
  char *reply = connection->reply;
  size_t room = REPLY_BYTES - connection->received;
  ssize_t read = recv(connection->socket, reply + connection->received, room, 0);
  if (read <= 0) fail(room == 0 ? "A reply is too long." : "The server closed the connection before it had answered.");
  connection->received += read;
  reply[connection->received] = 0;
  char *body = strstr(reply, "\r\n\r\n");
  if (!body) return 0;
  body += 4;
  char *length = strcasestr(reply, "\r\ncontent-length:");
  if (length && length < body) {
    size_t whole = body - reply + strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
    if (connection->received < whole) return 0;
    if (connection->received > whole) fail("The server sent more than one reply to a request.");
  } else {
    /* Chunks: JSON has no bare line ends. */
    if (connection->received < 5 || strcmp(reply + connection->received - 5, "0\r\n\r\n") != 0) return 0;
  }
  if (connection->received < 12 || atoi(reply + 9) != status)
    fail("Status %d was expected, but this came: %.300s", status, reply);
  if (!strstr(body, connection->number)) fail("Document %s was expected, but this came: %.300s", connection->number, body);
  return 1;
}

int main(int count, char **arguments) {
  if (count < 8) fail("usage: generator CONNECTIONS MILLISECONDS STATUS DOCUMENTS FIRST ADDRESSES TEMPLATE...");
  int connection_count = atoi(arguments[1]);
  double duration = atof(arguments[2]) / 1000;
  status = atoi(arguments[3]);
  documents = strtoull(arguments[4], NULL, 10);
  next_number = strtoull(arguments[5], NULL, 10);
  char *addresses[ADDRESSES];
  int address_count = 0;
  for (char *each = strtok(arguments[6], ","); each && address_count < ADDRESSES; each = strtok(NULL, ","))
    addresses[address_count++] = each;
  templates = arguments + 7;
  template_count = count - 7;
  if (connection_count < 1 || address_count < 1) fail("There is nothing to connect to.");

  int poll = epoll_create1(EPOLL_CLOEXEC);
  struct connection *connections = calloc(connection_count, sizeof *connections);
  if (poll < 0 || !connections) fail("%m");
  for (int i = 0; i < connection_count; i++) {
    connections[i].socket = connected(addresses[i % address_count]);
    struct epoll_event interest = {.events = EPOLLIN, .data.ptr = &connections[i]};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, connections[i].socket, &interest) != 0) fail("%m");
  }

  long requests = 0;
  int under_way = connection_count;
  double begun = now(), end = begun + duration;
  for (int i = 0; i < connection_count; i++) ask(&connections[i]);
  while (under_way > 0) {
    struct epoll_event events[EVENTS];
    int ready = epoll_wait(poll, events, EVENTS, SILENCE_MILLISECONDS);
    if (ready <= 0) fail("The server does not answer.");
    int is_over = now() >= end;
    for (int i = 0; i < ready; i++) {
      struct connection *connection = events[i].data.ptr;
      if (!answered(connection)) continue;
      requests++;
      if (is_over) under_way--;
      else ask(connection);
    }
    if (connection_count >= GATHERING_CONNECTIONS) usleep(GATHER_MICROSECONDS);
  }
  printf("{\"requests\":%ld,\"seconds\":%.6f,\"processorSeconds\":%.6f}\n", requests, now() - begun, processor_seconds());
  return 0;
}
