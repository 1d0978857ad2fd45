# nantop and nantrain. `make run` and `make test` do everything on a fresh machine; `make help` lists the rest.
.DEFAULT_GOAL := all
MAKEFLAGS += --no-print-directory
BUILD ?= build
PREFIX ?= /usr/local
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
JOBS ?= $(shell nproc)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
MODULES := libzmq sqlite3 ncursesw openblas json-c zlib libxxhash

# The processor this is built on is the one it runs on; a portable build says `make MARCH=`.
MARCH ?= -march=native
OPT ?= -O2 -g
SANITIZE ?=
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
CPPFLAGS += -I. -D_GNU_SOURCE $(shell pkg-config --cflags $(MODULES) 2>/dev/null)
CFLAGS := -std=c11 $(WARN) $(OPT) -ffp-contract=off -pthread $(SANITIZE) $(CFLAGS)
LDFLAGS += -pthread $(SANITIZE) -Wl,--as-needed
LDLIBS := $(shell pkg-config --libs $(MODULES) 2>/dev/null) -linih -ldl -lm
TEST_LIBS := -lcmocka -lvterm -lutil

MAINS := trainer/main.c tui/main.c
SOURCES := $(filter-out $(MAINS),$(wildcard shared/*/*.c kernels/cpu/*.c trainer/*.c tui/*.c))
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o)
PROGRAMS := $(BUILD)/nantrain $(BUILD)/nantop
TESTS := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/test_*.c))
BENCHES := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/bench_*.c))
HELPERS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/help_*.c))
MANUALS := $(BUILD)/nantop.1 $(BUILD)/nantrain.1
THEMES := $(wildcard themes/*.ini)

.PHONY: all run test sanitize bench install uninstall clean deps deps-test help programs tests
all: deps ## build both programs (installs what is missing)
	@$(MAKE) -j$(JOBS) programs

run: ## train on real data and watch it: the whole story in about a minute
	@tools/deps.sh build run
	@$(MAKE) -j$(JOBS) programs
	@tools/demo.sh $(BUILD) $(DEMO)

test: deps-test ## run every test
	@$(MAKE) -j$(JOBS) programs tests
	@tests/run.sh $(BUILD)

SANITIZERS := address,undefined thread
sanitize: deps-test ## every test under ASan+UBSan, then under TSan
	@for kind in $(SANITIZERS); do \
	  echo "sanitize: $$kind"; folder=$(BUILD)-$$(echo $$kind | tr ',' '-'); \
	  $(MAKE) -j$(JOBS) BUILD=$$folder OPT="-O1 -g" SANITIZE="-fsanitize=$$kind -fno-sanitize-recover=all -fno-omit-frame-pointer" \
	    programs tests && \
	  TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp halt_on_error=1" UBSAN_OPTIONS=print_stacktrace=1 tests/run.sh $$folder || exit 1; \
	done

bench: all ## measure every budget of the design, ours beside its limit
	@$(MAKE) -j$(JOBS) benches
	@/usr/bin/python3 tests/bench.py $(BUILD) $(SECTIONS)

install: all manuals ## both programs, man pages and themes under PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/nantop/themes
	install $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(MANUALS) $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(THEMES) $(DESTDIR)$(PREFIX)/share/nantop/themes

uninstall: ## what install put there
	rm -f $(PROGRAMS:$(BUILD)/%=$(DESTDIR)$(PREFIX)/bin/%)
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/nantop.1 $(DESTDIR)$(PREFIX)/share/man/man1/nantrain.1
	rm -rf $(DESTDIR)$(PREFIX)/share/nantop

clean: ## what was built (runs and data stay)
	rm -rf $(BUILD) $(BUILD)-address-undefined $(BUILD)-thread

deps: ## install what the build needs
	@tools/deps.sh build

deps-test:
	@tools/deps.sh build test

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 12

.PHONY: benches manuals
manuals: $(MANUALS)
$(BUILD)/%.1: docs/%.1.in tools/man.sh $(BUILD)/%
	@tools/man.sh $(BUILD)/$* $< >$@

programs: $(PROGRAMS)
	@:
tests: $(TESTS) $(BUILD)/backend_cpu.so
benches: $(BENCHES)

# Position-independent, since a backend can be a shared object.
$(BUILD)/kernels/cpu/%.o $(BUILD)/shared/core/%.o $(BUILD)/tests/backend_cpu.o: CFLAGS += -fPIC
$(BUILD)/kernels/cpu/%.o: CFLAGS += -O3 $(MARCH)
# What is baked in is built anew when it changes: a stamp for each.
BAKED := $(BUILD)/version $(BUILD)/prefix
$(BUILD)/trainer/main.o $(BUILD)/trainer/training.o $(BUILD)/tui/main.o: CPPFLAGS += -DVERSION='"$(VERSION)"'
$(BUILD)/trainer/main.o $(BUILD)/trainer/training.o $(BUILD)/tui/main.o: $(BUILD)/version
$(BUILD)/tui/theme.o: CPPFLAGS += -DDATADIR='"$(PREFIX)/share/nantop"'
$(BUILD)/tui/theme.o: $(BUILD)/prefix $(THEMES)
$(BUILD)/version: STAMP = $(VERSION)
$(BUILD)/prefix: STAMP = $(PREFIX)
$(BAKED): always
	@mkdir -p $(@D)
	@echo '$(STAMP)' | cmp -s - $@ || echo '$(STAMP)' >$@
.PHONY: always

$(BUILD)/%.o: %.c
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

$(TESTS) $(BENCHES): $(HELPERS) $(BUILD)/libnantop.a
$(BUILD)/test_%: $(BUILD)/tests/test_%.o
	@echo "LD $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) $(LDLIBS)
$(BUILD)/bench_%: $(BUILD)/tests/bench_%.o
	@echo "LD $@"
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(TEST_LIBS) $(LDLIBS)

$(BUILD)/backend_cpu.so: $(BUILD)/tests/backend_cpu.o $(filter $(BUILD)/kernels/cpu/%,$(OBJECTS)) $(BUILD)/libnantop.a
	@echo "LD $@"
	$(Q)$(CC) $(LDFLAGS) -shared -o $@ $(filter %.o,$^) $(BUILD)/libnantop.a $(LDLIBS)

.SECONDARY:
-include $(wildcard $(BUILD)/*/*.d $(BUILD)/*/*/*.d)
