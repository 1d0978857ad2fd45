# nantop and nantrain. `make run`, `make test`; `make help` lists the rest.
.DEFAULT_GOAL := all
BUILD ?= build
PREFIX ?= /usr/local
CC ?= cc
V ?= 0
Q := $(if $(filter 1,$(V)),,@)

PACKAGES := libzmq sqlite3 ncursesw openblas json-c zlib
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)

# The processor this is built on is the one it runs on; a portable build says `make MARCH=`.
MARCH ?= -march=native
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
OPT ?= -O2 -g
SANITIZE ?=
CPPFLAGS += -I. -D_GNU_SOURCE $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
CFLAGS := -std=c11 $(WARN) $(OPT) -ffp-contract=off -pthread $(SANITIZE) $(CFLAGS_EXTRA)
LDFLAGS += -pthread -rdynamic $(SANITIZE) -Wl,--as-needed
LDLIBS := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lxxhash -linih -ldl -lm

MAINS := trainer/main.c tui/main.c
SOURCES := $(filter-out $(MAINS),$(wildcard shared/*/*.c kernels/cpu/*.c trainer/*.c tui/*.c))
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o)
TEST_SOURCES := $(wildcard tests/test_*.c)
TESTS := $(TEST_SOURCES:tests/%.c=$(BUILD)/%)
TEST_LIBS := -lcmocka $(shell pkg-config --libs vterm 2>/dev/null)
HELPERS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/help_*.c))
PROGRAMS := $(BUILD)/nantrain $(BUILD)/nantop

.PHONY: all
all: $(PROGRAMS)

$(BUILD)/kernels/cpu/%.o: CFLAGS += -O3 $(MARCH)

$(BUILD)/%.o: %.c | deps-quick
	@mkdir -p $(@D)
	@echo "CC $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/libnantop.a: $(OBJECTS)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/nantrain: $(BUILD)/trainer/main.o $(BUILD)/libnantop.a
	@echo "LD $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/nantop: $(BUILD)/tui/main.o $(BUILD)/libnantop.a
	@echo "LD $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/test_%: $(BUILD)/tests/test_%.o $(HELPERS) $(BUILD)/libnantop.a
	@echo "LD $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(TEST_LIBS) $(LDLIBS)

.SECONDARY:
.PHONY: deps-quick
deps-quick:

-include $(OBJECTS:.o=.d) $(MAINS:%.c=$(BUILD)/%.d) $(TEST_SOURCES:%.c=$(BUILD)/%.d)
