"""
Which modules get adapters, by nemo-automodel 0.7.0's own matcher.

    python match_modules.py '{"peft": {"target_modules": […]}, "modules": ["lm_head", …]}'

Out: the names that match, as a JSON list on standard output. Every name is taken for a linear module.
"""

import json
import os
import sys

os.environ["NO_VCS_VERSION"] = "1"

import stand_ins  # noqa: E402

stand_ins.install()

from nemo_automodel.components._peft.module_matcher import ModuleMatcher  # noqa: E402
from nemo_automodel.components._peft import module_matcher  # noqa: E402

# torch.nn.Linear is a stand-in here, of which nothing is an instance.
module_matcher._is_linear_module = lambda _module: True

asked = json.loads(sys.argv[1])
matcher = ModuleMatcher(asked["peft"].get("target_modules"), asked["peft"].get("exclude_modules"))
print(json.dumps([name for name in asked["modules"] if matcher.match(None, name.rsplit(".", 1)[-1], name.rpartition(".")[0])]))
